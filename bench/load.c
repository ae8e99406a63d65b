/*
 * load: sends requests to a ZMQ door as fast as it answers, and prints rate and latencies.
 *
 * One thread and one DEALER per connection; a connection keeps a number of cycles of requests
 * going. All connections share one context with one I/O thread. See --help for the plan. The
 * figures are of the measured interval only; a request counts where its answer arrives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/heap.h"
#include "load_connection.h"

typedef struct load_sums {
    double seconds;
    uint64_t cycles, calls;
    const histogram *latencies; /* per request */
    const load_result *results;
} load_sums;

static void print_text(const load_plan *plan, const load_sums *sums) {
    printf("%s %ux%u: %.0f calls/s, %.0f cycles/s\n", plan->label, plan->connections,
           plan->outstanding, (double)sums->calls / sums->seconds,
           (double)sums->cycles / sums->seconds);
    for (size_t i = 0; i < plan->request_count; i++)
        printf("  %-24.24s p50 %9.1f us  p99 %9.1f us\n", plan->requests[i].label,
               histogram_quantile(&sums->latencies[i], 0.5) / 1e3,
               histogram_quantile(&sums->latencies[i], 0.99) / 1e3);
}

static void print_result(const load_result *result) {
    if (!result->some) {
        printf("\"result_size\": null, \"result\": null");
        return;
    }
    printf("\"result_size\": %zu, \"result\": \"", result->size);
    for (size_t i = 0; i < result->size && i < RESULT_HEAD; i++)
        printf("%02x", result->head[i]);
    printf("\"");
}

static void print_json(const load_plan *plan, const load_sums *sums) {
    printf("{\"label\": \"%s\", \"connections\": %u, \"outstanding\": %u, \"seconds\": %.3f, "
           "\"calls_per_s\": %.1f, \"cycles_per_s\": %.1f, \"requests\": [",
           plan->label, plan->connections, plan->outstanding, sums->seconds,
           (double)sums->calls / sums->seconds, (double)sums->cycles / sums->seconds);
    for (size_t i = 0; i < plan->request_count; i++) {
        const histogram *h = &sums->latencies[i];
        double mean = h->count > 0 ? (double)h->sum_ns / (double)h->count : 0;
        printf("%s{\"op\": \"%.40s\", \"count\": %llu, \"p50_us\": %.2f, \"p99_us\": %.2f, "
               "\"mean_us\": %.2f, ",
               i > 0 ? ", " : "", plan->requests[i].label, (unsigned long long)h->count,
               histogram_quantile(h, 0.5) / 1e3, histogram_quantile(h, 0.99) / 1e3, mean / 1e3);
        print_result(&sums->results[i]);
        printf("}");
    }
    printf("]}\n");
}

/* Sums up all connections into the first. False: one of them failed. */
static bool sum_up(load_connection *connections, const load_plan *plan, load_sums *sums) {
    bool ok = true;
    for (unsigned c = 0; c < plan->connections; c++) {
        ok = ok && !connections[c].failed;
        sums->cycles += connections[c].cycles;
        for (size_t i = 0; i < plan->request_count; i++) {
            sums->calls += connections[c].latencies[i].count;
            if (c > 0)
                histogram_merge(&connections[0].latencies[i], &connections[c].latencies[i]);
        }
    }
    sums->latencies = connections[0].latencies;
    sums->results = connections[0].results;
    return ok;
}

/* Lets the connections run for their time, or until they have done their cycles. */
static double let_run(load_run *run, load_connection *connections, unsigned opened) {
    const load_plan *plan = run->plan;
    while (atomic_load(&run->connected) < opened)
        load_sleep(0.001);
    if (plan->cycles == 0)
        load_sleep(plan->warmup);
    uint64_t start = load_now_ns();
    atomic_store(&run->phase, MEASURING);
    if (plan->cycles == 0) {
        load_sleep(plan->seconds);
        atomic_store(&run->phase, ENDED);
    }
    double seconds = (double)(load_now_ns() - start) / 1e9;
    for (unsigned i = 0; i < opened; i++)
        pthread_join(connections[i].thread, NULL);
    return plan->cycles == 0 ? seconds : (double)(load_now_ns() - start) / 1e9;
}

static int run_plan(const load_plan *plan, void *context, load_connection *connections) {
    load_run run = {.plan = plan, .first_number = (uint32_t)(load_now_ns() / 1000)};
    load_sums sums = {0};
    unsigned opened = 0;
    atomic_init(&run.phase, plan->cycles > 0 ? MEASURING : WARMING);
    while (opened < plan->connections &&
           load_connection_open(&connections[opened], &run, context, opened))
        opened++;
    sums.seconds = let_run(&run, connections, opened);
    if (opened < plan->connections || !sum_up(connections, plan, &sums) || sums.calls == 0) {
        fprintf(stderr, "load: %s: no answer\n", plan->endpoint);
        return 1;
    }
    (plan->json ? print_json : print_text)(plan, &sums);
    return 0;
}

int main(int count, char **words) {
    load_plan plan;
    if (!plan_parse(&plan, count, words)) {
        fputs(plan_usage, stderr);
        plan_free(&plan);
        return 2;
    }
    lmc_heap_keep_large();
    void *context = zmq_ctx_new();
    load_connection *connections = calloc(plan.connections, sizeof *connections);
    int status = connections != NULL ? run_plan(&plan, context, connections) : 1;
    for (unsigned i = 0; connections != NULL && i < plan.connections; i++) {
        if (connections[i].socket != NULL)
            zmq_close(connections[i].socket);
    }
    zmq_ctx_term(context);
    for (unsigned i = 0; connections != NULL && i < plan.connections; i++)
        load_connection_free(&connections[i]);
    free(connections);
    plan_free(&plan);
    return status;
}
