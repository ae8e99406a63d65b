#include "base/copy_crew.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/thread.h"

#define HELPERS_MAX 3u
#define PIECE ((size_t)1 << 20)

/* One copy; lies on the stack of the thread that asked for it. */
typedef struct job {
    uint8_t *to;
    const uint8_t *from;
    size_t size;
    void (*copy)(void *to, const void *from, size_t size);
    _Atomic size_t begun; /* bytes */
    /* under the lock */
    unsigned helpers; /* that have it */
    struct job *next;
} job;

static struct {
    lmc_lock lock;
    lmc_cond offered, left;
    job *jobs; /* latest first */
    bool stopping;
    _Atomic unsigned idle;
    unsigned count;
    lmc_thread threads[HELPERS_MAX];
} crew;

static void do_pieces(job *j) {
    size_t at;
    while ((at = atomic_fetch_add_explicit(&j->begun, PIECE, memory_order_relaxed)) < j->size)
        j->copy(j->to + at, j->from + at, j->size - at < PIECE ? j->size - at : PIECE);
}

static bool has_pieces(job *j) {
    return atomic_load_explicit(&j->begun, memory_order_relaxed) < j->size;
}

/* Lock held. */
static job *find_job(void) {
    job *j = crew.jobs;
    while (j != NULL && !has_pieces(j))
        j = j->next;
    return j;
}

static void help(void *arg) {
    (void)arg;
    lmc_lock_take(&crew.lock);
    for (;;) {
        job *j;
        while ((j = find_job()) == NULL && !crew.stopping) {
            atomic_fetch_add(&crew.idle, 1);
            lmc_cond_wait(&crew.offered, &crew.lock);
            atomic_fetch_sub(&crew.idle, 1);
        }
        if (j == NULL)
            break;
        j->helpers++;
        lmc_lock_drop(&crew.lock);
        do_pieces(j);
        lmc_lock_take(&crew.lock);
        if (--j->helpers == 0)
            lmc_cond_broadcast(&crew.left);
    }
    lmc_lock_drop(&crew.lock);
}

/* ---- start and stop ---- */

unsigned lmc_copy_crew_size(void) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (processors < 2)
        return 0;
    return processors / 2 < (long)HELPERS_MAX ? (unsigned)(processors / 2) : HELPERS_MAX;
}

lmc_status lmc_copy_crew_start(unsigned helpers, lmc_error *error) {
    lmc_lock_init(&crew.lock, LMC_RANK_COPY, "copy crew");
    lmc_cond_init(&crew.offered);
    lmc_cond_init(&crew.left);
    crew.stopping = false;
    lmc_status status = LMC_OK;
    for (unsigned i = 0; i < helpers && i < HELPERS_MAX && status == LMC_OK; i++) {
        char name[16];
        snprintf(name, sizeof name, "lmc-copy-%u", i);
        status = lmc_thread_start(&crew.threads[i], name, help, NULL, error);
        crew.count += status == LMC_OK;
    }
    if (status != LMC_OK)
        lmc_copy_crew_stop();
    return status;
}

void lmc_copy_crew_stop(void) {
    if (crew.count == 0)
        return;
    lmc_lock_take(&crew.lock);
    crew.stopping = true;
    lmc_cond_broadcast(&crew.offered);
    lmc_lock_drop(&crew.lock);
    for (unsigned i = 0; i < crew.count; i++)
        lmc_thread_join(&crew.threads[i]);
    crew.count = 0;
}

/* ---- copies ---- */

unsigned lmc_copy_crew_idle(void) {
    return atomic_load_explicit(&crew.idle, memory_order_relaxed);
}

static void offer(job *j) {
    lmc_lock_take(&crew.lock);
    j->next = crew.jobs;
    crew.jobs = j;
    lmc_cond_broadcast(&crew.offered);
    lmc_lock_drop(&crew.lock);
}

/* Afterwards nobody has it. */
static void withdraw(job *j) {
    lmc_lock_take(&crew.lock);
    job **at = &crew.jobs;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    while (j->helpers > 0)
        lmc_cond_wait(&crew.left, &crew.lock);
    lmc_lock_drop(&crew.lock);
}

void lmc_copy_crew_share(void *to, const void *from, size_t size,
                         void (*copy)(void *to, const void *from, size_t size)) {
    if (size < 2 * PIECE || lmc_copy_crew_idle() == 0) {
        copy(to, from, size);
        return;
    }
    job mine = {.to = to, .from = from, .size = size, .copy = copy};
    offer(&mine);
    do_pieces(&mine);
    withdraw(&mine);
}
