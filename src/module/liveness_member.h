/*
 * liveness_member.h: one member of a liveness set and the thread that calls it.
 *
 * The thread is started with the first job and takes jobs in order. Private to liveness.c.
 */
#ifndef LMC_MODULE_LIVENESS_MEMBER_H
#define LMC_MODULE_LIVENESS_MEMBER_H

#include "base/lock.h"
#include "base/thread.h"
#include "module/liveness.h"

typedef struct lmc_liveness_job {
    struct lmc_liveness_job *next;
    int64_t instance_id;
    bool is_drop; /* else a touch */
} lmc_liveness_job;

typedef struct lmc_liveness_member {
    const char *name;
    const lmc_liveness *table;
    void *self;
    bool outside;
    _Atomic(struct lmc_liveness_member *) next;

    lmc_lock lock;
    lmc_cond changed;
    lmc_liveness_job *first, *last;
    size_t touches; /* queued */
    lmc_thread thread;
    bool stopping, running;
} lmc_liveness_member;

lmc_liveness_member *lmc_liveness_member_create(const char *name, const lmc_liveness *table,
                                                void *self, bool outside);
void lmc_liveness_member_destroy(lmc_liveness_member *member); /* must not be running */
/* Queues one call; false when it could not be (logged). */
bool lmc_liveness_member_post(lmc_liveness_member *member, int64_t instance_id, bool is_drop);
/* Takes no more jobs, finishes queued drops, forgets touches. */
void lmc_liveness_member_stop(lmc_liveness_member *member);
/* Waits for the thread until the deadline; false: it is still in a call, and abandoned. */
bool lmc_liveness_member_join(lmc_liveness_member *member, int64_t deadline_ns);

#endif
