/*
 * lock.h: mutexes and condition variables with a rank, so that lock order is checked.
 *
 * A thread may take a lock only if every lock it holds has a lower rank. Debug builds (NDEBUG
 * not defined) abort with both names when the order is broken or a lock is held where none may
 * be (lmc_lock_assert_none, called before every call out of the core). Names and order are in
 * this enum and nowhere else.
 */
#ifndef LMC_BASE_LOCK_H
#define LMC_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Outer locks first. Gaps leave room. */
typedef enum lmc_lock_rank {
    LMC_RANK_SERVER = 100,    /* server: state of start and stop */
    LMC_RANK_PLUGINS = 150,   /* runtime_plugin: table of plugins, commands */
    LMC_RANK_MODULES = 200,   /* module: status collection, liveness list */
    LMC_RANK_INSTANCES = 300, /* cache: registered instances and their records */
    LMC_RANK_SESSIONS = 400,  /* cache: sessions, holds, lookup jobs */
    LMC_RANK_LAYOUTS = 500,   /* cache: layout registry */
    LMC_RANK_HASHES = 550,    /* cache: memo of chunk hashes */
    LMC_RANK_L1 = 600,        /* cache: object table, policy, extents */
    LMC_RANK_SUPPLY = 650,    /* cache: page supply */
    LMC_RANK_DISPATCH = 700,  /* dispatch: pools and queues */
    LMC_RANK_TRANSPORT = 800, /* transport: wake-up sender, peers */
    LMC_RANK_TIMER = 850,     /* base: timer heap */
    LMC_RANK_COPY = 870,      /* base: large copies that are shared */
    LMC_RANK_EVENTS = 880,    /* observe: event bus */
    LMC_RANK_METRICS = 900,   /* observe: registry */
    LMC_RANK_LOG = 1000,      /* base: log levels and queue */
} lmc_lock_rank;

typedef struct lmc_lock {
    pthread_mutex_t mutex;
    const char *name;
    lmc_lock_rank rank;
    int64_t taken_ns;   /* set while held, when hold times are measured */
    int64_t longest_ns; /* longest hold seen, when hold times are measured */
} lmc_lock;

void lmc_lock_init(lmc_lock *lock, lmc_lock_rank rank, const char *name);
void lmc_lock_fini(lmc_lock *lock);
void lmc_lock_take(lmc_lock *lock);
bool lmc_lock_try(lmc_lock *lock);
void lmc_lock_drop(lmc_lock *lock);

/* Aborts in debug builds when the calling thread holds any lock. */
void lmc_lock_assert_none(void);

/* Turns on measuring of hold times for all locks (bench only; two clock reads per hold). */
void lmc_lock_measure(bool on);
int64_t lmc_lock_longest_ns(lmc_lock *lock); /* and resets it */

typedef struct lmc_cond {
    pthread_cond_t cond;
} lmc_cond;
void lmc_cond_init(lmc_cond *cond); /* CLOCK_MONOTONIC */
void lmc_cond_fini(lmc_cond *cond);
void lmc_cond_wait(lmc_cond *cond, lmc_lock *lock);
/* Waits until the monotonic deadline; false on timeout. */
bool lmc_cond_wait_until(lmc_cond *cond, lmc_lock *lock, int64_t deadline_ns);
void lmc_cond_signal(lmc_cond *cond);
void lmc_cond_broadcast(lmc_cond *cond);

#endif
