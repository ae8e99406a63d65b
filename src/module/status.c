#include "module/status.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "module/status_writer.h"

#define LMC_LOGGER "lmcache.module"

typedef struct status_source {
    const char *name;
    lmc_status_report report;
    void *self;
    lmc_writer result; /* of the last call that returned */
    lmc_status status;
    char *failure; /* what the last report said of its failure; NULL: nothing */
    bool running;
    struct status_source *next;
} status_source;

typedef struct status_worker {
    lmc_status_collector *collector;
    lmc_thread thread;
    status_source *job;
    bool stopping, finished;
    struct status_worker *next; /* of those that were given up */
} status_worker;

struct lmc_status_collector {
    lmc_lock lock;
    lmc_cond changed;
    status_source *first, *last;
    status_worker *worker; /* the one that takes jobs, NULL: none yet */
    status_worker *given_up;
    int64_t budget_ns;
    bool collecting;
};

lmc_status_collector *lmc_status_collector_create(int64_t budget_ns) {
    lmc_status_collector *collector = calloc(1, sizeof *collector);
    if (collector == NULL)
        return NULL;
    lmc_lock_init(&collector->lock, LMC_RANK_MODULES, "status");
    lmc_cond_init(&collector->changed);
    collector->budget_ns = budget_ns;
    return collector;
}

lmc_status lmc_status_collector_add(lmc_status_collector *collector, const char *name,
                                    lmc_status_report report, void *self) {
    status_source *source = calloc(1, sizeof *source);
    if (source == NULL)
        return LMC_NO_MEMORY;
    source->name = name;
    source->report = report;
    source->self = self;
    lmc_lock_take(&collector->lock);
    *(collector->last != NULL ? &collector->last->next : &collector->first) = source;
    collector->last = source;
    lmc_lock_drop(&collector->lock);
    return LMC_OK;
}

/* ---- the thread that calls modules ---- */

static void run_job(status_worker *worker, status_source *source) {
    lmc_writer writer;
    lmc_writer_init(&writer);
    lmc_lock_assert_none();
    lmc_status status = source->report(source->self, &writer);
    lmc_status finished = lmc_writer_finish(&writer);
    lmc_lock_take(&worker->collector->lock);
    source->status = status != LMC_OK ? status : finished;
    free(source->failure);
    source->failure = source->status != LMC_OK ? writer.failure : NULL;
    if (source->failure != NULL)
        writer.failure = NULL;
    if (source->status == LMC_OK) {
        lmc_writer former = source->result;
        source->result = writer;
        writer = former;
    }
    source->running = false;
    worker->job = NULL;
    lmc_cond_broadcast(&worker->collector->changed);
    lmc_lock_drop(&worker->collector->lock);
    lmc_writer_fini(&writer);
}

static status_source *wait_for_job(status_worker *worker) {
    lmc_status_collector *collector = worker->collector;
    lmc_lock_take(&collector->lock);
    while (worker->job == NULL && !worker->stopping)
        lmc_cond_wait(&collector->changed, &collector->lock);
    status_source *job = worker->job;
    if (job == NULL) {
        worker->finished = true;
        lmc_cond_broadcast(&collector->changed);
    }
    lmc_lock_drop(&collector->lock);
    return job;
}

static void run_worker(void *arg) {
    status_worker *worker = arg;
    for (status_source *job; (job = wait_for_job(worker)) != NULL;)
        run_job(worker, job);
}

static status_worker *start_worker(lmc_status_collector *collector) {
    lmc_error error = LMC_ERROR_INIT;
    status_worker *worker = calloc(1, sizeof *worker);
    if (worker == NULL)
        return NULL;
    worker->collector = collector;
    if (lmc_thread_start(&worker->thread, "lmc-status", run_worker, worker, &error) != LMC_OK) {
        LMC_WARNING("no thread to collect the status of modules: %s", error.text);
        free(worker);
        return NULL;
    }
    return worker;
}

static void give_up_worker(lmc_status_collector *collector) {
    status_worker *worker = collector->worker;
    worker->stopping = true;
    worker->next = collector->given_up;
    collector->given_up = worker;
    collector->worker = NULL;
}

/* Calls one source and waits for it within the budget; not while an earlier call still runs. */
static void refresh(lmc_status_collector *collector, status_source *source) {
    lmc_lock_take(&collector->lock);
    if (collector->worker == NULL)
        collector->worker = start_worker(collector);
    if (collector->worker != NULL && !source->running) {
        int64_t deadline = lmc_now(&lmc_system_clock) + collector->budget_ns;
        bool in_time = true;
        source->running = true;
        collector->worker->job = source;
        lmc_cond_broadcast(&collector->changed);
        while (source->running && in_time)
            in_time = lmc_cond_wait_until(&collector->changed, &collector->lock, deadline);
        if (source->running)
            give_up_worker(collector);
    }
    lmc_lock_drop(&collector->lock);
}

/* ---- merging ---- */

/* A member of the merged object, or of status_errors. */
typedef struct merged_member {
    lmc_slice name, value;
} merged_member;

typedef struct merged_status {
    merged_member *members;
    size_t count, capacity;
    bool is_healthy, failed;
} merged_status;

static void merge_member(merged_status *merged, lmc_slice name, lmc_slice value) {
    for (size_t i = 0; i < merged->count; i++) {
        if (lmc_slice_equal(merged->members[i].name, name)) {
            merged->members[i].value = value;
            return;
        }
    }
    if (merged->count == merged->capacity) {
        size_t capacity = merged->capacity > 0 ? 2 * merged->capacity : 32;
        merged_member *members = realloc(merged->members, capacity * sizeof *members);
        if (members == NULL) {
            merged->failed = true;
            return;
        }
        merged->members = members;
        merged->capacity = capacity;
    }
    merged->members[merged->count++] = (merged_member){name, value};
}

static void merge_writer(merged_status *merged, const lmc_writer *writer) {
    for (size_t i = 0; i < writer->count; i++) {
        lmc_slice name = lmc_writer_name(writer, i);
        if (!lmc_slice_is(name, "is_healthy")) {
            merge_member(merged, name, lmc_writer_value(writer, i));
        } else if (writer->members[i].is_bool) {
            merged->is_healthy = merged->is_healthy && writer->members[i].is_true;
            merge_member(merged, name, lmc_text(merged->is_healthy ? "true" : "false"));
        }
    }
}

static const char *source_error(const status_source *source) {
    if (source->running)
        return "report_status has not returned; its last result is shown";
    if (source->failure != NULL)
        return source->failure;
    switch (source->status) {
    case LMC_OK:
        return NULL;
    case LMC_NO_MEMORY:
        return "out of memory in report_status";
    case LMC_INVALID:
        return "report_status did not write a JSON object";
    default:
        return "report_status failed";
    }
}

static void write_errors(const status_source *first, lmc_json_writer *json) {
    bool any = false;
    for (const status_source *source = first; source != NULL; source = source->next) {
        const char *text = source_error(source);
        if (text == NULL)
            continue;
        if (!any) {
            lmc_json_name(json, "status_errors");
            lmc_json_object_begin(json);
        }
        any = true;
        lmc_json_member_text(json, source->name, text);
    }
    if (any)
        lmc_json_object_end(json);
}

static lmc_status write_merged(lmc_status_collector *collector, const lmc_writer *core,
                               lmc_buffer *out) {
    merged_status merged = {.is_healthy = true};
    lmc_json_writer json;
    lmc_json_start(&json, out, LMC_JSON_COMPACT, LMC_JSON_UTF8);
    lmc_json_object_begin(&json);
    merge_writer(&merged, core);
    lmc_lock_take(&collector->lock);
    for (const status_source *source = collector->first; source != NULL; source = source->next)
        merge_writer(&merged, &source->result);
    for (size_t i = 0; i < merged.count; i++) {
        lmc_json_name_slice(&json, merged.members[i].name);
        lmc_json_raw(&json, merged.members[i].value);
    }
    write_errors(collector->first, &json);
    lmc_lock_drop(&collector->lock);
    lmc_json_object_end(&json);
    lmc_status status = lmc_json_finish(&json);
    free(merged.members);
    return merged.failed ? LMC_NO_MEMORY : status;
}

static void begin_collecting(lmc_status_collector *collector) {
    lmc_lock_take(&collector->lock);
    while (collector->collecting)
        lmc_cond_wait(&collector->changed, &collector->lock);
    collector->collecting = true;
    status_source *first = collector->first;
    lmc_lock_drop(&collector->lock);
    for (status_source *source = first; source != NULL; source = source->next)
        refresh(collector, source);
}

static void end_collecting(lmc_status_collector *collector) {
    lmc_lock_take(&collector->lock);
    collector->collecting = false;
    lmc_cond_broadcast(&collector->changed);
    lmc_lock_drop(&collector->lock);
}

void lmc_status_refresh(lmc_status_collector *collector) {
    begin_collecting(collector);
    end_collecting(collector);
}

lmc_status lmc_status_collect(lmc_status_collector *collector, lmc_status_report core,
                              void *arg, lmc_buffer *out) {
    lmc_writer writer;
    lmc_writer_init(&writer);
    lmc_status status = core(arg, &writer);
    if (status == LMC_OK)
        status = lmc_writer_finish(&writer);
    begin_collecting(collector);
    if (status == LMC_OK)
        status = write_merged(collector, &writer, out);
    end_collecting(collector);
    lmc_writer_fini(&writer);
    return status;
}

bool lmc_status_modules_healthy(lmc_status_collector *collector, const char **unhealthy) {
    *unhealthy = NULL;
    lmc_lock_take(&collector->lock);
    for (const status_source *source = collector->first; source != NULL; source = source->next)
        for (size_t i = 0; i < source->result.count && *unhealthy == NULL; i++)
            if (lmc_slice_is(lmc_writer_name(&source->result, i), "is_healthy") &&
                source->result.members[i].is_bool && !source->result.members[i].is_true)
                *unhealthy = source->name;
    lmc_lock_drop(&collector->lock);
    return *unhealthy == NULL;
}

bool lmc_status_collector_is_late(lmc_status_collector *collector, const void *self) {
    bool late = false;
    lmc_lock_take(&collector->lock);
    for (const status_source *source = collector->first; source != NULL; source = source->next)
        late = late || (source->self == self && source->running);
    lmc_lock_drop(&collector->lock);
    return late;
}

/* ---- the end ---- */

static bool all_finished(const lmc_status_collector *collector) {
    for (const status_worker *w = collector->given_up; w != NULL; w = w->next)
        if (!w->finished)
            return false;
    return true;
}

bool lmc_status_collector_stop(lmc_status_collector *collector, int64_t wait_ns) {
    int64_t deadline = lmc_now(&lmc_system_clock) + wait_ns;
    bool in_time = true;
    lmc_lock_take(&collector->lock);
    if (collector->worker != NULL)
        give_up_worker(collector);
    lmc_cond_broadcast(&collector->changed);
    while (!all_finished(collector) && in_time)
        in_time = lmc_cond_wait_until(&collector->changed, &collector->lock, deadline);
    bool finished = all_finished(collector);
    status_worker *workers = finished ? collector->given_up : NULL;
    if (finished)
        collector->given_up = NULL;
    lmc_lock_drop(&collector->lock);
    while (workers != NULL) {
        status_worker *next = workers->next;
        lmc_thread_join(&workers->thread);
        free(workers);
        workers = next;
    }
    return finished;
}

void lmc_status_collector_destroy(lmc_status_collector *collector) {
    if (collector == NULL || !lmc_status_collector_stop(collector, LMC_NS_PER_S))
        return;
    for (status_source *source = collector->first; source != NULL;) {
        status_source *next = source->next;
        lmc_writer_fini(&source->result);
        free(source->failure);
        free(source);
        source = next;
    }
    lmc_cond_fini(&collector->changed);
    lmc_lock_fini(&collector->lock);
    free(collector);
}
