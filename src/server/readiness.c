/*
 * readiness.c: whether a request that came now would be answered. Reads counters only, so a
 * probe neither waits nor disturbs.
 */
#include <stdio.h>

#include "base/json_writer.h"
#include "server/state.h"

#define LOOP_LIMIT_NS LMC_NS_PER_S        /* without a turn of the request loop */
#define QUEUE_LIMIT_NS (5 * LMC_NS_PER_S) /* of a request that waits for a thread */
#define CORE_LIMIT_NS (10 * LMC_NS_PER_S) /* without a tick of the core */

typedef struct verdict {
    lmc_json_writer *json;
    bool ready;
} verdict;

static void add_reason(verdict *v, const char *text) {
    if (v->ready) {
        lmc_json_name(v->json, "reasons");
        lmc_json_list_begin(v->json);
    }
    v->ready = false;
    lmc_json_text(v->json, text);
}

static double in_seconds(int64_t ns) { return (double)ns / (double)LMC_NS_PER_S; }

static int64_t loop_silence(const lmc_server *server) {
    int64_t last =
        server->transport != NULL ? lmc_zmq_transport_last_turn_ns(server->transport) : 0;
    return last != 0 ? lmc_now(&lmc_system_clock) - last : INT64_MAX;
}

bool lmc_server_loop_turns(const lmc_server *server) {
    return loop_silence(server) <= LOOP_LIMIT_NS;
}

static void check_pool(void *arg, const lmc_pool_report *pool) {
    char text[160];
    if (pool->queued == 0 || pool->oldest_ns <= QUEUE_LIMIT_NS)
        return;
    snprintf(text, sizeof text, "pool %s: a request has waited %.1f s for a thread; %s runs",
             pool->name, in_seconds(pool->oldest_ns),
             pool->longest != NULL ? pool->longest : "nothing");
    add_reason(arg, text);
}

static void check_all(lmc_server *server, verdict *v) {
    char text[160];
    const char *module;
    lmc_l1_report l1;
    int64_t silence = loop_silence(server);
    if (atomic_load(&server->stopping))
        add_reason(v, "the server is stopping");
    if (silence == INT64_MAX) {
        add_reason(v, "requests are not served yet");
        return;
    }
    if (silence > LOOP_LIMIT_NS) {
        snprintf(text, sizeof text, "the request loop has not come round for %.1f s",
                 in_seconds(silence));
        add_reason(v, text);
    }
    lmc_pools_each(server->dispatcher->pools, check_pool, v);
    lmc_l1_report_get(lmc_cache_l1(server->cache), &l1);
    if (!l1.is_sound)
        add_reason(v, "L1: the accounts of its memory do not add up");
    silence = lmc_now(&lmc_system_clock) - lmc_core_worker_last_ns(server->worker);
    if (silence > CORE_LIMIT_NS) {
        snprintf(text, sizeof text, "the core worker has not run for %.1f s",
                 in_seconds(silence));
        add_reason(v, text);
    }
    if (!lmc_status_modules_healthy(lmc_composition_status(server->composition), &module)) {
        snprintf(text, sizeof text, "module %s reports that it is not healthy", module);
        add_reason(v, text);
    }
}

lmc_status lmc_server_readiness(lmc_server *server, lmc_buffer *out, bool *ready) {
    lmc_json_writer json;
    verdict v = {.json = &json, .ready = true};
    lmc_json_start(&json, out, LMC_JSON_COMPACT, LMC_JSON_UTF8);
    lmc_json_object_begin(&json);
    check_all(server, &v);
    if (!v.ready)
        lmc_json_list_end(&json);
    lmc_json_member_text(&json, "status", v.ready ? "ready" : "not ready");
    lmc_json_object_end(&json);
    *ready = v.ready;
    return lmc_json_finish(&json);
}
