/*
 * load: sends requests to a ZMQ door as fast as it answers, and prints rate and latencies.
 *
 * One thread and one DEALER per connection; a connection keeps a number of cycles of requests
 * going. All connections share one context with one I/O thread. See --help for the plan. The
 * figures are of the measured interval only; a request counts where its answer arrives.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "histogram.h"
#include "load_plan.h"

#define NS_PER_S UINT64_C(1000000000)
#define PATIENCE_MS 30000       /* a reply that takes longer ends the run */
#define LENT_FROM ((size_t)512) /* larger frames are lent to libzmq, not copied */

typedef enum load_phase { WARMING, MEASURING, ENDED } load_phase;

/* One cycle that is going on. */
typedef struct load_slot {
    size_t request; /* of the load_plan */
    uint64_t sent_ns;
    uint32_t number; /* for the mark */
} load_slot;

typedef struct load_connection {
    const load_plan *plan;
    void *socket;
    pthread_t thread;
    unsigned index;
    load_slot *slots;
    histogram *latencies; /* per request of the load_plan */
    uint64_t cycles;
    bool failed;
} load_connection;

static _Atomic int now_is;
static _Atomic uint32_t next_number;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void keep(void *data, void *hint) {
    (void)data;
    (void)hint;
}

static int make_frame(const plan_frame *frame, uint32_t number, zmq_msg_t *message) {
    bool marked = frame->mark < frame->size;
    if (frame->size >= LENT_FROM && !marked)
        return zmq_msg_init_data(message, frame->data, frame->size, keep, NULL);
    if (zmq_msg_init_size(message, frame->size) != 0)
        return -1;
    unsigned char *out = zmq_msg_data(message);
    memcpy(out, frame->data, frame->size);
    if (marked) {
        char digits[PLAN_MARK_SIZE + 1];
        snprintf(digits, sizeof digits, "%08x", number);
        memcpy(out + frame->mark, digits, PLAN_MARK_SIZE);
    }
    return 0;
}

/* The uid is the slot, as a 32-bit integer, so that a reply finds its slot. */
static bool send_request(load_connection *c, unsigned index) {
    load_slot *slot = &c->slots[index];
    const plan_request *request = &c->plan->requests[slot->request];
    unsigned char uid[5] = {0xce, (unsigned char)(index >> 24), (unsigned char)(index >> 16),
                            (unsigned char)(index >> 8), (unsigned char)index};
    slot->sent_ns = now_ns();
    if (zmq_send(c->socket, uid, sizeof uid, ZMQ_SNDMORE) < 0)
        return false;
    for (size_t i = 0; i < request->frame_count; i++) {
        zmq_msg_t message;
        int more = i + 1 < request->frame_count ? ZMQ_SNDMORE : 0;
        if (make_frame(&request->frames[i], slot->number, &message) != 0 ||
            zmq_msg_send(&message, c->socket, more) < 0)
            return false;
    }
    return true;
}

static bool read_reply(load_connection *c, unsigned *index) {
    unsigned char uid[8];
    if (zmq_recv(c->socket, uid, sizeof uid, 0) != 5)
        return false;
    *index = (unsigned)uid[1] << 24 | (unsigned)uid[2] << 16 | (unsigned)uid[3] << 8 | uid[4];
    zmq_msg_t rest;
    zmq_msg_init(&rest);
    bool ok = true;
    do
        ok = zmq_msg_recv(&rest, c->socket, 0) >= 0;
    while (ok && zmq_msg_more(&rest));
    zmq_msg_close(&rest);
    return ok && *index < c->plan->outstanding;
}

static bool start_cycle(load_connection *c, unsigned index) {
    c->slots[index].request = 0;
    c->slots[index].number = atomic_fetch_add(&next_number, 1);
    return send_request(c, index);
}

/* The reply to a slot's request has come: on to the next request. */
static bool advance(load_connection *c, unsigned index, load_phase phase) {
    load_slot *slot = &c->slots[index];
    if (phase == MEASURING)
        histogram_add(&c->latencies[slot->request], now_ns() - slot->sent_ns);
    slot->request++;
    if (slot->request < c->plan->request_count)
        return send_request(c, index);
    c->cycles += phase == MEASURING;
    return start_cycle(c, index);
}

static void *run_connection(void *arg) {
    load_connection *c = arg;
    load_phase phase = WARMING;
    for (unsigned i = 0; i < c->plan->outstanding && !c->failed; i++)
        c->failed = !start_cycle(c, i);
    while (!c->failed && (phase = (load_phase)atomic_load(&now_is)) != ENDED) {
        unsigned index;
        c->failed = !read_reply(c, &index) || !advance(c, index, phase);
    }
    return NULL;
}

static bool open_connection(load_connection *c, void *context, const load_plan *plan,
                            unsigned index) {
    int unlimited = 0, none = 0, patience = PATIENCE_MS;
    c->plan = plan;
    c->index = index;
    c->slots = calloc(plan->outstanding, sizeof *c->slots);
    c->latencies = calloc(plan->request_count, sizeof *c->latencies);
    c->socket = zmq_socket(context, ZMQ_DEALER);
    if (c->slots == NULL || c->latencies == NULL || c->socket == NULL)
        return false;
    zmq_setsockopt(c->socket, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(c->socket, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(c->socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(c->socket, ZMQ_RCVTIMEO, &patience, sizeof patience);
    return zmq_connect(c->socket, plan->endpoint) == 0 &&
           pthread_create(&c->thread, NULL, run_connection, c) == 0;
}

static void sleep_for(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static void print_text(const load_plan *plan, const histogram *latencies, double seconds,
                       uint64_t cycles, uint64_t calls) {
    printf("%s %ux%u: %.0f calls/s, %.0f cycles/s\n", plan->label, plan->connections,
           plan->outstanding, (double)calls / seconds, (double)cycles / seconds);
    for (size_t i = 0; i < plan->request_count; i++)
        printf("  %-24.24s p50 %9.1f us  p99 %9.1f us\n", plan->requests[i].label,
               histogram_quantile(&latencies[i], 0.5) / 1e3,
               histogram_quantile(&latencies[i], 0.99) / 1e3);
}

static void print_json(const load_plan *plan, const histogram *latencies, double seconds,
                       uint64_t cycles, uint64_t calls) {
    printf("{\"label\": \"%s\", \"connections\": %u, \"outstanding\": %u, \"seconds\": %.3f, "
           "\"calls_per_s\": %.1f, \"cycles_per_s\": %.1f, \"requests\": [",
           plan->label, plan->connections, plan->outstanding, seconds, (double)calls / seconds,
           (double)cycles / seconds);
    for (size_t i = 0; i < plan->request_count; i++) {
        const histogram *h = &latencies[i];
        double mean = h->count > 0 ? (double)h->sum_ns / (double)h->count : 0;
        printf("%s{\"op\": \"%.40s\", \"count\": %llu, \"p50_us\": %.2f, \"p99_us\": %.2f, "
               "\"mean_us\": %.2f}",
               i > 0 ? ", " : "", plan->requests[i].label, (unsigned long long)h->count,
               histogram_quantile(h, 0.5) / 1e3, histogram_quantile(h, 0.99) / 1e3, mean / 1e3);
    }
    printf("]}\n");
}

/* Sums up all connections into the first. False: one of them failed. */
static bool sum_up(load_connection *connections, const load_plan *plan, uint64_t *cycles,
                   uint64_t *calls) {
    bool ok = true;
    for (unsigned c = 0; c < plan->connections; c++) {
        ok = ok && !connections[c].failed;
        *cycles += connections[c].cycles;
        for (size_t i = 0; i < plan->request_count; i++) {
            *calls += connections[c].latencies[i].count;
            if (c > 0)
                histogram_merge(&connections[0].latencies[i], &connections[c].latencies[i]);
        }
    }
    return ok;
}

static int run_plan(const load_plan *plan, void *context, load_connection *connections) {
    unsigned opened = 0;
    while (opened < plan->connections &&
           open_connection(&connections[opened], context, plan, opened))
        opened++;
    sleep_for(plan->warmup);
    uint64_t start = now_ns();
    atomic_store(&now_is, MEASURING);
    sleep_for(plan->seconds);
    double seconds = (double)(now_ns() - start) / 1e9;
    atomic_store(&now_is, ENDED);
    for (unsigned i = 0; i < opened; i++)
        pthread_join(connections[i].thread, NULL);
    uint64_t cycles = 0, calls = 0;
    if (opened < plan->connections || !sum_up(connections, plan, &cycles, &calls) ||
        calls == 0) {
        fprintf(stderr, "load: %s: no answer\n", plan->endpoint);
        return 1;
    }
    (plan->json ? print_json : print_text)(plan, connections[0].latencies, seconds, cycles,
                                           calls);
    return 0;
}

int main(int count, char **words) {
    load_plan plan;
    if (!plan_parse(&plan, count, words)) {
        fputs(plan_usage, stderr);
        plan_free(&plan);
        return 2;
    }
    void *context = zmq_ctx_new();
    load_connection *connections = calloc(plan.connections, sizeof *connections);
    int status = connections != NULL ? run_plan(&plan, context, connections) : 1;
    for (unsigned i = 0; connections != NULL && i < plan.connections; i++) {
        if (connections[i].socket != NULL)
            zmq_close(connections[i].socket);
        free(connections[i].slots);
        free(connections[i].latencies);
    }
    free(connections);
    zmq_ctx_term(context);
    plan_free(&plan);
    return status;
}
