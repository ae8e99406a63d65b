/*
 * load_connection.h: one connection of the load generator, with its thread.
 *
 * All connections share a plan and a run. A connection's fields belong to its thread until that
 * has been joined. Frames are lent to libzmq: close after the connections' sockets are closed
 * and their context has ended.
 */
#ifndef LMC_BENCH_LOAD_CONNECTION_H
#define LMC_BENCH_LOAD_CONNECTION_H

#include <pthread.h>
#include <stdatomic.h>

#include "histogram.h"
#include "load_plan.h"

#define RESULT_HEAD 16

typedef enum load_phase { WARMING, MEASURING, ENDED } load_phase;

typedef struct load_run {
    const load_plan *plan;
    _Atomic int phase;          /* load_phase */
    _Atomic uint32_t started;   /* cycles */
    _Atomic unsigned connected; /* connections that have had an answer, or have failed */
    uint32_t first_number;
} load_run;

/* One cycle that is going on. */
typedef struct load_slot {
    size_t request; /* of the plan */
    uint64_t sent_ns;
    /* Frames with marks, in copies of the slot's own. */
    unsigned char *copies[PLAN_REQUESTS_MAX][PLAN_FRAMES_MAX];
} load_slot;

/* The latest result of one request of the plan. */
typedef struct load_result {
    bool some;
    size_t size;
    unsigned char head[RESULT_HEAD];
} load_result;

typedef struct load_connection {
    load_run *run;
    const load_plan *plan;
    void *socket;
    pthread_t thread;
    unsigned index, going; /* cycles that are going on */
    load_slot *slots;
    histogram *latencies; /* per request of the plan */
    load_result results[PLAN_REQUESTS_MAX];
    uint64_t cycles;
    bool failed;
} load_connection;

uint64_t load_now_ns(void);
void load_sleep(double seconds);

/* Connects and starts the thread. False: no memory, or no thread. */
bool load_connection_open(load_connection *c, load_run *run, void *context, unsigned index);
void load_connection_free(load_connection *c); /* after its context has ended */

#endif
