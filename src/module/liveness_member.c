#include "module/liveness_member.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"

#define LMC_LOGGER "lmcache.liveness"

lmc_liveness_member *lmc_liveness_member_create(const char *name, const lmc_liveness *table,
                                                void *self, bool outside) {
    lmc_liveness_member *member = calloc(1, sizeof *member);
    if (member == NULL)
        return NULL;
    member->name = name;
    member->table = table;
    member->self = self;
    member->outside = outside;
    lmc_lock_init(&member->lock, LMC_RANK_MODULES, "liveness member");
    lmc_cond_init(&member->changed);
    return member;
}

void lmc_liveness_member_destroy(lmc_liveness_member *member) {
    while (member->first != NULL) {
        lmc_liveness_job *job = member->first;
        member->first = job->next;
        free(job);
    }
    lmc_cond_fini(&member->changed);
    lmc_lock_fini(&member->lock);
    free(member);
}

/* The next job, or NULL when the member stops and no drop is left. */
static lmc_liveness_job *take_job(lmc_liveness_member *member) {
    lmc_liveness_job *job = NULL;
    lmc_lock_take(&member->lock);
    for (;;) {
        while (member->first == NULL && !member->stopping)
            lmc_cond_wait(&member->changed, &member->lock);
        job = member->first;
        if (job == NULL)
            break;
        member->first = job->next;
        if (member->first == NULL)
            member->last = NULL;
        if (!job->is_drop)
            member->touches--;
        if (job->is_drop || !member->stopping)
            break;
        free(job);
    }
    if (job == NULL) {
        member->running = false;
        lmc_cond_broadcast(&member->changed);
    }
    lmc_lock_drop(&member->lock);
    return job;
}

static void run_member(void *arg) {
    lmc_liveness_member *member = arg;
    for (lmc_liveness_job *job; (job = take_job(member)) != NULL; free(job)) {
        lmc_lock_assert_none();
        if (job->is_drop)
            member->table->drop_instance_state(member->self, job->instance_id);
        else
            member->table->touch_instance(member->self, job->instance_id);
    }
}

static bool start_locked(lmc_liveness_member *member) {
    lmc_error error = LMC_ERROR_INIT;
    if (member->running)
        return true;
    member->running = true;
    if (lmc_thread_start(&member->thread, "lmc-liveness", run_member, member, &error) == LMC_OK)
        return true;
    member->running = false;
    LMC_ERROR("no thread to tell %s about instances: %s", member->name, error.text);
    return false;
}

static bool append_locked(lmc_liveness_member *member, lmc_liveness_job *job) {
    if (member->stopping || (!job->is_drop && member->touches >= LMC_LIVENESS_QUEUE_MAX))
        return false;
    if (!start_locked(member))
        return false;
    if (member->last != NULL)
        member->last->next = job;
    else
        member->first = job;
    member->last = job;
    if (!job->is_drop)
        member->touches++;
    lmc_cond_signal(&member->changed);
    return true;
}

bool lmc_liveness_member_post(lmc_liveness_member *member, int64_t instance_id, bool is_drop) {
    static lmc_log_limit limit;
    lmc_liveness_job *job = calloc(1, sizeof *job);
    bool posted = false;
    if (job != NULL) {
        job->instance_id = instance_id;
        job->is_drop = is_drop;
        lmc_lock_take(&member->lock);
        posted = append_locked(member, job);
        lmc_lock_drop(&member->lock);
    }
    if (!posted) {
        free(job);
        if (lmc_log_allow(&limit, NULL))
            LMC_WARNING("%s was not told that instance %lld %s", member->name,
                        (long long)instance_id, is_drop ? "is gone" : "is alive");
    }
    return posted;
}

void lmc_liveness_member_stop(lmc_liveness_member *member) {
    lmc_lock_take(&member->lock);
    member->stopping = true;
    lmc_cond_broadcast(&member->changed);
    lmc_lock_drop(&member->lock);
}

bool lmc_liveness_member_join(lmc_liveness_member *member, int64_t deadline_ns) {
    bool in_time = true;
    lmc_lock_take(&member->lock);
    while (member->running && in_time)
        in_time = lmc_cond_wait_until(&member->changed, &member->lock, deadline_ns);
    bool running = member->running;
    lmc_lock_drop(&member->lock);
    if (running) {
        LMC_ERROR("%s did not return from a call about a lost instance; abandoned",
                  member->name);
        return false;
    }
    lmc_thread_join(&member->thread);
    return true;
}
