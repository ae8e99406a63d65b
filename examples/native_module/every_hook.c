/*
 * every_hook: a server module that uses every hook of lmcached/module.h, two classes in one
 * file.
 *
 * EchoModule answers envelopes and has a ZMQ socket of its own. WatchModule, which depends on
 * it, overrides an operation and hands it on, follows engine instances, turns events into a
 * metric, and answers GET /ext/WatchModule/noops. Configuration, all optional: {"prefix":
 * "echo:", "sidecar": "tcp://127.0.0.1:5599"}.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include <lmcached/module.h>

/* ---- EchoModule: configuration, envelopes, a sidecar socket ---- */

typedef struct echo {
    lmc_context *context;
    lmc_slice prefix, sidecar;
    void *socket;
    pthread_t thread;
    atomic_bool stopping;
} echo;

static lmc_status create_echo(lmc_build *build, void **self, lmc_error *error) {
    bool enabled = true;
    lmc_status status = lmc_build_config_bool(build, "enabled", &enabled, error);
    if (status == LMC_OK && !enabled)
        return LMC_DECLINED; /* not applicable: the class is simply absent */
    echo *e = calloc(1, sizeof *e);
    if (e == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory");
    e->context = lmc_build_context(build);
    e->prefix = (lmc_slice){"echo:", 5};
    if (status == LMC_OK)
        status = lmc_build_config_text(build, "prefix", &e->prefix, error);
    if (status == LMC_OK)
        status = lmc_build_config_text(build, "sidecar", &e->sidecar, error);
    if (status != LMC_OK)
        free(e);
    *self = e;
    return status;
}

static void close_echo(void *self) {
    echo *e = self;
    atomic_store(&e->stopping, true);
    if (e->socket != NULL) {
        pthread_join(e->thread, NULL);
        zmq_close(e->socket);
    }
    free(e);
}

static void handle_echo(void *self, lmc_call *call) {
    const echo *e = self;
    const lmc_server_module_call_request *request = lmc_call_request(call);
    lmc_server_module_call_reply *reply = lmc_call_reply(call);
    lmc_slice *pieces = lmc_call_alloc(call, (request->payload.count + 1) * sizeof *pieces);
    if (pieces == NULL) {
        lmc_complete(call, LMC_NO_MEMORY);
        return;
    }
    /* The payload goes back as it lies in the request: it is ours until the call is complete.
     */
    pieces[0] = e->prefix;
    for (size_t i = 0; i < request->payload.count; i++)
        pieces[i + 1] = request->payload.items[i];
    reply->payload.items = pieces;
    reply->payload.count = request->payload.count + 1;
    reply->payload.size = request->payload.size + e->prefix.size;
    lmc_complete(call, LMC_OK);
}

static void handle_fail(void *self, lmc_call *call) {
    (void)self;
    lmc_fail(call, LMC_FAILED, "boom");
}

static void run_sidecar(echo *e) {
    while (!atomic_load(&e->stopping)) {
        zmq_pollitem_t item = {.socket = e->socket, .events = ZMQ_POLLIN};
        char bytes[256];
        if (zmq_poll(&item, 1, 50) <= 0)
            continue;
        int size = zmq_recv(e->socket, bytes, sizeof bytes, 0);
        if (size >= 0)
            zmq_send(e->socket, bytes, size < (int)sizeof bytes ? (size_t)size : sizeof bytes,
                     0);
    }
}

static void *sidecar_thread(void *self) {
    run_sidecar(self);
    return NULL;
}

/* The request socket is bound and nothing is served yet. */
static lmc_status register_echo(void *self, lmc_zmq_server *server, lmc_error *error) {
    static const char *const own[] = {"server_module_call", NULL};
    echo *e = self;
    char endpoint[256] = "";
    if (e->sidecar.size == 0 || e->sidecar.size >= sizeof endpoint)
        return LMC_OK;
    memcpy(endpoint, e->sidecar.data, e->sidecar.size);
    e->socket = zmq_socket(lmc_zmq_server_context(server), ZMQ_REP);
    if (e->socket == NULL || zmq_bind(e->socket, endpoint) != 0 ||
        pthread_create(&e->thread, NULL, sidecar_thread, e) != 0) {
        if (e->socket != NULL)
            zmq_close(e->socket);
        e->socket = NULL;
        return lmc_error_set(error, LMC_FAILED, "cannot serve on %s: %s", endpoint,
                             zmq_strerror(zmq_errno()));
    }
    lmc_log(e->context, LMC_LEVEL_INFO, "sidecar on %s", endpoint);
    return lmc_zmq_server_add_normal_pool(server, own, 2, error); /* envelopes run there */
}

static const lmc_envelope echo_methods[] = {
    {.method = "echo.fail", .handle = handle_fail},
    {.method = "echo.say", .handle = handle_echo},
    {0},
};

static const lmc_module_class echo_class = {
    .size = sizeof(lmc_module_class),
    .name = "EchoModule",
    .version = "1.0",
    .create = create_echo,
    .close = close_echo,
    .envelopes = echo_methods,
    .register_zmq = register_echo,
};

/* ---- WatchModule: an override, liveness, events, a metric, a route, status ---- */

typedef struct watch {
    lmc_context *context;
    lmc_metric *stores;
    atomic_llong noops, touched, dropped;
} watch;

static void count_store(void *arg, const lmc_event *event) {
    watch *w = arg;
    lmc_slice model = {0};
    lmc_event_text(event, "model_name", &model);
    lmc_metric_add(w->stores, model, 1);
}

static void show_noops(void *self, lmc_http_call *call) {
    char text[64];
    int size = snprintf(text, sizeof text, "{\"noops\": %lld}",
                        (long long)atomic_load(&((watch *)self)->noops));
    lmc_http_call_answer(call, 200, "application/json", text, (size_t)size);
}

static lmc_status create_watch(lmc_build *build, void **self, lmc_error *error) {
    if (lmc_build_require(build, "EchoModule", error) == NULL)
        return LMC_NOT_FOUND;
    watch *w = calloc(1, sizeof *w);
    if (w == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory");
    w->context = lmc_build_context(build);
    w->stores =
        lmc_metric_counter(w->context, "stores", "Stores that engines finished", "model");
    *self = w;
    lmc_status status = lmc_subscribe(w->context, "mp.store.end", count_store, w, error);
    if (status >= 0) /* LMC_DECLINED: the server runs without an event bus */
        status = lmc_build_add_route(build, "GET", "/noops", show_noops, error);
    if (status < 0) {
        free(w);
        return status;
    }
    return LMC_OK;
}

/* Counts, then lets the server's own handler answer. */
static void handle_noop(void *self, lmc_call *call) {
    atomic_fetch_add(&((watch *)self)->noops, 1);
    lmc_forward(call);
}

static void touch(void *self, int64_t instance_id) {
    (void)instance_id;
    atomic_fetch_add(&((watch *)self)->touched, 1);
}

static void reap(void *self, int64_t reap_timeout_ns, int64_t grace_ns,
                 void (*found)(void *arg, int64_t instance_id), void *arg) {
    (void)self, (void)reap_timeout_ns, (void)grace_ns, (void)found, (void)arg;
}

static int64_t tracked(void *self) {
    (void)self;
    return 0;
}

static void drop(void *self, int64_t instance_id) {
    lmc_log(((watch *)self)->context, LMC_LEVEL_INFO, "instance %lld is gone",
            (long long)instance_id);
    atomic_fetch_add(&((watch *)self)->dropped, 1);
}

static lmc_status report_watch(void *self, lmc_writer *writer) {
    watch *w = self;
    lmc_memory_report memory = {.size = sizeof memory};
    lmc_memory_usage(w->context, &memory);
    lmc_write_object_begin(writer, "watch");
    lmc_write_bool(writer, "is_healthy", true);
    lmc_write_int(writer, "noops", atomic_load(&w->noops));
    lmc_write_int(writer, "touched", atomic_load(&w->touched));
    lmc_write_int(writer, "dropped", atomic_load(&w->dropped));
    lmc_write_int(writer, "resident_objects", (int64_t)memory.resident_objects);
    lmc_write_int(writer, "chunk_size", lmc_chunk_size(w->context));
    lmc_write_object_end(writer);
    return LMC_OK;
}

static const char *const watch_depends[] = {"EchoModule", "LookupModule", NULL};
static const lmc_operation watch_operations[] = {
    {.name = "noop", .scheduling = LMC_SYNC, .handle = handle_noop},
    {0},
};
static const lmc_liveness watch_liveness = {
    .touch_instance = touch,
    .reap_stale_instances = reap,
    .tracked_instance_count = tracked,
    .drop_instance_state = drop,
};

static const lmc_module_class watch_class = {
    .size = sizeof(lmc_module_class),
    .name = "WatchModule",
    .version = "1.0",
    .depends = watch_depends,
    .create = create_watch,
    .close = free,
    .report_status = report_watch,
    .operations = watch_operations,
    .liveness = &watch_liveness,
};

LMC_MODULE(&echo_class, &watch_class);
