/*
 * load_plan.h: what the load generator sends: one cycle of requests, given on the command line.
 *
 * A plan is filled once and then only read. It owns its frames.
 */
#ifndef LMC_BENCH_LOAD_PLAN_H
#define LMC_BENCH_LOAD_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAN_REQUESTS_MAX 16
#define PLAN_FRAMES_MAX 8
#define PLAN_MARKS_MAX 4

/* A place in a frame that is replaced before the frame is sent; see plan_usage. */
typedef enum plan_mark_kind { MARK_DIGITS, MARK_CYCLE, MARK_CONNECTION } plan_mark_kind;

typedef struct plan_mark {
    plan_mark_kind kind;
    size_t at;
} plan_mark;

typedef struct plan_frame {
    unsigned char *data;
    size_t size;
    plan_mark marks[PLAN_MARKS_MAX];
    size_t mark_count;
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
    unsigned pause_us; /* of every connection before a cycle */
    uint32_t cycles;   /* all together, then the run ends; 0: no limit */
    bool json;
    plan_request requests[PLAN_REQUESTS_MAX];
    size_t request_count;
} load_plan;

extern const char plan_usage[];

/* False: usage error, or a frame file cannot be read (said on stderr). */
bool plan_parse(load_plan *plan, int count, char **words);
void plan_free(load_plan *plan);

/* Replaces the marks in a copy of the frame's bytes. */
void plan_fill_marks(const plan_frame *frame, unsigned char *copy, uint32_t cycle,
                     uint32_t connection);

#endif
