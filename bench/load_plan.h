/*
 * load_plan.h: what the load generator sends: one cycle of requests, given on the command line.
 *
 * A plan is filled once and then only read. It owns its frames.
 */
#ifndef LMC_BENCH_LOAD_PLAN_H
#define LMC_BENCH_LOAD_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#define PLAN_REQUESTS_MAX 16
#define PLAN_FRAMES_MAX 8
#define PLAN_MARK "%%%%%%%%" /* in a frame: replaced by eight digits that differ per cycle */
#define PLAN_MARK_SIZE 8

typedef struct plan_frame {
    unsigned char *data;
    size_t size;
    size_t mark; /* where PLAN_MARK is; size: nowhere */
} plan_frame;

typedef struct plan_request {
    const char *label;
    plan_frame frames[PLAN_FRAMES_MAX]; /* operation and payload */
    size_t frame_count;
} plan_request;

typedef struct load_plan {
    const char *endpoint, *label;
    unsigned connections, outstanding;
    double seconds, warmup;
    bool json;
    plan_request requests[PLAN_REQUESTS_MAX];
    size_t request_count;
} load_plan;

extern const char plan_usage[];

/* False: usage error, or a frame file cannot be read (said on stderr). */
bool plan_parse(load_plan *plan, int count, char **words);
void plan_free(load_plan *plan);

#endif
