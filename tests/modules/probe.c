/*
 * probe.c: a server module for tests. What it is called, needs and overrides is decided when it
 * is compiled, what it does by its configuration.
 *
 *   -DNAME='"Alpha"' -DPREFIX='"alpha"'     class, namespace of its methods
 *   -DDEPENDS='"LookupModule","Beta"'       default: none
 *   -DOVERRIDE='"clear"' -DSCHEDULING=...   an operation that it replaces; default: none
 *   -DLIVE                                  it takes part in liveness
 *   -DSAME_METHOD                           it offers one method under a name without its
 * prefix
 *
 *   -DNO_AWKWARD_METHODS                    none that completes a call never, or twice
 *
 * {"trace": FILE}  a line is appended for everything that happens
 * {"create": "fail" | "silent" | "decline" | "require" (with "class")}
 * {"status": "fail" | "hang" | "junk" | "open" | "key" | "sick"}, {"close": "hang"}
 * {"registrar": "no_pool" | "pool" | "affinity_pool" | "sync_pool" | "unhandled" | "null" |
 * "fail"}
 * {"override": "forward" | "after" | "answer" | "fail" | "never" | "sleep"}
 * {"drop": "hang" | "sleep 60"}, {"touch": "hang"}, {"reap": ID}
 * {"subscribe": EVENT}, {"leave_object": true}, {"leak": true}
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <lmcached/module.h>

#ifndef NAME
#define NAME "Probe"
#endif
#ifndef PREFIX
#define PREFIX "probe"
#endif
#ifndef SCHEDULING
#define SCHEDULING LMC_SYNC
#endif

#define LATER_MAX 512

typedef struct probe {
    lmc_context *context;
    char trace[512];
    char create[32], status[32], close[32], registrar[32], override[32], drop[32], touch[32];
    char class_name[64], event[64];
    int64_t reap;
    bool leave_object, leak;
    atomic_llong calls, events, afters;
    pthread_mutex_t lock;
    pthread_t threads[LATER_MAX]; /* that complete calls later */
    size_t thread_count;
    lmc_metric *seen;
} probe;

static void say(const probe *p, const char *what) {
    char line[256];
    int fd = p->trace[0] != '\0'
                 ? open(p->trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)
                 : -1;
    int size = snprintf(line, sizeof line, "%s %s\n", what, NAME);
    if (fd < 0)
        return;
    if (write(fd, line, (size_t)size) < 0)
        abort();
    close(fd);
}

static void hang(void) {
    for (;;)
        sleep(60);
}

static bool is(const char *text, const char *wanted) { return strcmp(text, wanted) == 0; }

/* ---- create ---- */

static lmc_status read_text(lmc_build *build, const char *name, char *out, size_t room,
                            lmc_error *error) {
    lmc_slice text = {0};
    lmc_status status = lmc_build_config_text(build, name, &text, error);
    if (status == LMC_OK && text.size < room && text.data != NULL)
        memcpy(out, text.data, text.size);
    return status;
}

static lmc_status read_config(lmc_build *build, probe *p, lmc_error *error) {
    struct {
        const char *name;
        char *out;
        size_t room;
    } texts[] = {{"trace", p->trace, sizeof p->trace},
                 {"create", p->create, sizeof p->create},
                 {"status", p->status, sizeof p->status},
                 {"close", p->close, sizeof p->close},
                 {"registrar", p->registrar, sizeof p->registrar},
                 {"override", p->override, sizeof p->override},
                 {"drop", p->drop, sizeof p->drop},
                 {"touch", p->touch, sizeof p->touch},
                 {"class", p->class_name, sizeof p->class_name},
                 {"subscribe", p->event, sizeof p->event}};
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && status == LMC_OK; i++)
        status = read_text(build, texts[i].name, texts[i].out, texts[i].room - 1, error);
    if (status == LMC_OK)
        status = lmc_build_config_int(build, "reap", &p->reap, error);
    if (status == LMC_OK)
        status = lmc_build_config_bool(build, "leave_object", &p->leave_object, error);
    if (status == LMC_OK)
        status = lmc_build_config_bool(build, "leak", &p->leak, error);
    return status;
}

static void receive(void *arg, const lmc_event *event) {
    probe *p = arg;
    char text[200];
    int64_t count = -1;
    lmc_slice model = {0};
    lmc_event_int(event, "count", &count);
    lmc_event_text(event, "model_name", &model);
    lmc_slice session = lmc_event_session(event);
    atomic_fetch_add(&p->events, 1);
    lmc_metric_add(p->seen, (lmc_slice){lmc_event_name(event), strlen(lmc_event_name(event))},
                   1);
    snprintf(text, sizeof text, "event:%s:%lld:%.*s:%.*s", lmc_event_name(event),
             (long long)count, (int)model.size, (const char *)model.data, (int)session.size,
             (const char *)session.data);
    say(p, text);
}

static lmc_status construct(lmc_build *build, probe *p, lmc_error *error) {
    if (is(p->create, "fail"))
        return lmc_error_set(error, LMC_FAILED, "it was told to fail with %d", 42);
    if (is(p->create, "silent"))
        return LMC_NO_MEMORY;
    if (is(p->create, "decline"))
        return lmc_error_set(error, LMC_DECLINED, "it was told to decline");
    if (is(p->create, "require") && lmc_build_require(build, p->class_name, error) == NULL)
        return LMC_NOT_FOUND;
    p->seen = lmc_metric_counter(p->context, "events", "Events that were received", "event");
    lmc_metric_set(lmc_metric_gauge(p->context, "built", "Whether it was built", NULL),
                   (lmc_slice){0}, 1);
    if (p->event[0] != '\0')
        return lmc_subscribe(p->context, p->event, receive, p, error);
    return LMC_OK;
}

static lmc_status create(lmc_build *build, void **self, lmc_error *error) {
    probe *p = calloc(1, sizeof *p);
    if (p == NULL)
        return LMC_NO_MEMORY;
    pthread_mutex_init(&p->lock, NULL);
    p->context = lmc_build_context(build);
    lmc_status status = read_config(build, p, error);
    say(p, "create");
    if (p->leak && dup(2) < 0)
        status = LMC_FAILED;
    if (status == LMC_OK)
        status = construct(build, p, error);
    if (status != LMC_OK)
        free(p);
    else
        *self = p;
    return status;
}

static void close_probe(void *self) {
    probe *p = self;
    say(p, "close");
    if (is(p->close, "hang"))
        hang();
    for (size_t i = 0; i < p->thread_count; i++)
        pthread_join(p->threads[i], NULL);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* ---- status ---- */

static lmc_status report(void *self, lmc_writer *writer) {
    probe *p = self;
    if (is(p->status, "fail")) {
        lmc_write_int(writer, "lost", 1);
        lmc_write_failure(writer, "it was told to fail");
        return LMC_FAILED;
    }
    if (is(p->status, "hang"))
        hang();
    if (is(p->status, "junk"))
        lmc_write_json(writer, PREFIX, (lmc_slice){"{\"a\": nonsense", 14});
    if (is(p->status, "open"))
        lmc_write_object_begin(writer, PREFIX);
    if (is(p->status, "key"))
        lmc_write_text(writer, "shared_key", (lmc_slice){NAME, strlen(NAME)});
    if (is(p->status, "sick"))
        lmc_write_bool(writer, "is_healthy", false);
    if (p->status[0] != '\0')
        return LMC_OK;
    lmc_write_object_begin(writer, PREFIX);
    lmc_write_int(writer, "calls", atomic_load(&p->calls));
    lmc_write_int(writer, "afters", atomic_load(&p->afters));
    lmc_write_int(writer, "events", atomic_load(&p->events));
    lmc_write_json(writer, "raw", (lmc_slice){"[1, {\"x\": null}]", 16});
    lmc_write_object_end(writer);
    return LMC_OK;
}

/* ---- envelopes ---- */

static int64_t number_in(lmc_call *call) {
    const lmc_server_module_call_request *request = lmc_call_request(call);
    lmc_slice payload = lmc_call_join(call, &request->payload);
    char text[32] = "";
    memcpy(text, payload.data, payload.size < sizeof text ? payload.size : sizeof text - 1);
    return strtoll(text, NULL, 10);
}

static void answer(lmc_call *call, const char *text) {
    lmc_server_module_call_reply *reply = lmc_call_reply(call);
    lmc_complete(call, lmc_call_copy(call, &reply->payload, text, strlen(text))
                           ? LMC_OK
                           : LMC_NO_MEMORY);
}

static void handle_echo(void *self, lmc_call *call) {
    static const char prefix[] = "echo:";
    const lmc_server_module_call_request *request = lmc_call_request(call);
    lmc_server_module_call_reply *reply = lmc_call_reply(call);
    lmc_slice payload = lmc_call_join(call, &request->payload);
    char *text = lmc_call_alloc(call, payload.size + sizeof prefix);
    atomic_fetch_add(&((probe *)self)->calls, 1);
    memcpy(text, prefix, sizeof prefix - 1);
    if (payload.size > 0)
        memcpy(text + sizeof prefix - 1, payload.data, payload.size);
    lmc_call_lend(call, &reply->payload, text, payload.size + sizeof prefix - 1, NULL, NULL);
    lmc_complete(call, LMC_OK);
}

static void handle_fail(void *self, lmc_call *call) {
    (void)self;
    lmc_fail(call, LMC_FAILED, "boom");
}

static void handle_silent(void *self, lmc_call *call) {
    (void)self;
    lmc_complete(call, LMC_INVALID);
}

/* Nothing that could be sent as a reply. */
static void handle_strange(void *self, lmc_call *call) {
    (void)self;
    lmc_server_module_call_reply *reply = lmc_call_reply(call);
    switch (number_in(call)) {
    case 0:
        reply->error = (lmc_slice){"\xff\xfe", 2};
        lmc_complete(call, LMC_OK);
        break;
    case 1:
        lmc_complete(call, LMC_AGAIN);
        break;
    case 2:
        lmc_complete(call, 77);
        break;
    default:
        lmc_fail(call, -77, "\xff bytes that are no text");
    }
}

static void handle_sleep(void *self, lmc_call *call) {
    int64_t ms = number_in(call);
    (void)self;
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
    answer(call, "slept");
}

static void handle_thread(void *self, lmc_call *call) {
    char text[32];
    int64_t ms = number_in(call);
    (void)self;
    snprintf(text, sizeof text, "%ld", (long)gettid());
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
    answer(call, text);
}

__attribute__((unused)) static void handle_twice(void *self, lmc_call *call) {
    (void)self;
    answer(call, "once");
    lmc_complete(call, LMC_OK);
}

__attribute__((unused)) static void handle_never(void *self, lmc_call *call) {
    (void)self;
    (void)call;
}

static void *complete_later(void *call) {
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    answer(call, "later");
    return NULL;
}

static void handle_later(void *self, lmc_call *call) {
    probe *p = self;
    pthread_mutex_lock(&p->lock);
    bool started =
        p->thread_count < LATER_MAX &&
        pthread_create(&p->threads[p->thread_count], NULL, complete_later, call) == 0;
    p->thread_count += started;
    pthread_mutex_unlock(&p->lock);
    if (!started)
        lmc_fail(call, LMC_FAILED, "no thread");
}

static void handle_connection(void *self, lmc_call *call) {
    char text[64];
    (void)self;
    snprintf(text, sizeof text, "%llu %s", (unsigned long long)lmc_call_connection(call),
             lmc_call_operation(call));
    answer(call, text);
}

static void give_back(void *arg) { say(arg, "given_back"); }

static void handle_lend(void *self, lmc_call *call) {
    static const char bytes[] = "lent";
    lmc_server_module_call_reply *reply = lmc_call_reply(call);
    if (!lmc_call_lend(call, &reply->payload, bytes, 4, give_back, self))
        lmc_fail(call, LMC_NO_MEMORY, "no room");
    else
        lmc_complete(call, LMC_OK);
}

/* What the cache tells: "key of the first chunk of tokens 1..8 for model m". */
static void handle_cache(void *self, lmc_call *call) {
    probe *p = self;
    uint32_t tokens[8];
    uint8_t hashes[2 * LMC_CHUNK_HASH_SIZE], again[LMC_CHUNK_HASH_SIZE];
    char text[400];
    for (uint32_t i = 0; i < 8; i++)
        tokens[i] = i + 1;
    size_t count = lmc_hash_chunks(p->context, NULL, tokens, 8, hashes, 2);
    lmc_hash_chunks(p->context, hashes, tokens + 4, 4, again, 1);
    bool chained = memcmp(again, hashes + LMC_CHUNK_HASH_SIZE, sizeof again) == 0;
    lmc_object_key key = {.chunk_hash = {hashes, LMC_CHUNK_HASH_SIZE},
                          .model_name = {"m", 1},
                          .kv_rank = lmc_object_rank(1, 0)};
    bool present = false;
    lmc_status there = lmc_objects_present(p->context, &key, 1, &present);
    lmc_object *object = NULL;
    lmc_slice bytes = {0};
    lmc_status opened = lmc_object_open(p->context, &key, &object, &bytes);
    unsigned first = bytes.size > 0 ? *(const uint8_t *)bytes.data : 0;
    if (!p->leave_object)
        lmc_object_close(object);
    lmc_memory_report memory = {.size = sizeof memory};
    lmc_status used = lmc_memory_usage(p->context, &memory);
    lmc_model_layout layout = {.size = sizeof layout};
    lmc_status found = lmc_model_layout_of(p->context, key.model_name, 1, 0, &layout);
    size_t known = lmc_session_hashes(p->context, (lmc_slice){"session", 7}, 0, again, 1);
    bool same = known > 0 && memcmp(again, hashes, sizeof again) == 0;
    snprintf(
        text, sizeof text,
        "chunks=%zu chained=%d there=%d present=%d opened=%d bytes=%zu first=%u used=%d "
        "resident=%llu layout=%d dims=%u dtype=%s layout_bytes=%llu sessions=%lld known=%zu "
        "same=%d chunk_size=%lld abi=%u config=%d",
        count, chained, there, present, opened, bytes.size, first, used,
        (unsigned long long)memory.resident_objects, found, layout.dim_count, layout.dtype,
        (unsigned long long)layout.bytes, (long long)lmc_session_count(p->context), known, same,
        (long long)lmc_chunk_size(p->context), lmc_abi_minor(),
        lmc_server_config(p->context).size > 100);
    answer(call, text);
}

static void handle_clear(void *self, lmc_call *call) {
    lmc_objects_clear(((probe *)self)->context, false);
    answer(call, "cleared");
}

static void handle_publish(void *self, lmc_call *call) {
    lmc_event *event =
        lmc_event_begin(((probe *)self)->context, "probe.said", (lmc_slice){"session", 7});
    lmc_event_put_int(event, "count", 5);
    lmc_event_put_real(event, "weight", 0.5);
    lmc_event_put_text(event, "model_name", (lmc_slice){"m", 1});
    lmc_event_publish(event);
    answer(call, event != NULL ? "published" : "nobody listens");
}

static void handle_log(void *self, lmc_call *call) {
    lmc_log(((probe *)self)->context, LMC_LEVEL_INFO, "a line from %s", NAME);
    answer(call, "logged");
}

static const lmc_envelope envelopes[] = {
#ifdef SAME_METHOD
    {"same.method", handle_echo, {0}},
#endif
    {PREFIX ".echo", handle_echo, {0}},     {PREFIX ".fail", handle_fail, {0}},
    {PREFIX ".silent", handle_silent, {0}}, {PREFIX ".strange", handle_strange, {0}},
    {PREFIX ".sleep", handle_sleep, {0}},   {PREFIX ".thread", handle_thread, {0}},

#ifndef NO_AWKWARD_METHODS
    {PREFIX ".twice", handle_twice, {0}},   {PREFIX ".never", handle_never, {0}},
#endif
    {PREFIX ".later", handle_later, {0}},   {PREFIX ".connection", handle_connection, {0}},
    {PREFIX ".lend", handle_lend, {0}},     {PREFIX ".cache", handle_cache, {0}},
    {PREFIX ".clear", handle_clear, {0}},   {PREFIX ".publish", handle_publish, {0}},
    {PREFIX ".log", handle_log, {0}},       {NULL, NULL, {0}},
};

/* ---- an operation ---- */

static void after(void *arg, lmc_call *call, lmc_status status) {
    probe *p = arg;
    atomic_fetch_add(&p->afters, 1);
    lmc_complete(call, status);
}

static void handle_override(void *self, lmc_call *call) {
    probe *p = self;
    atomic_fetch_add(&p->calls, 1);
    char text[64];
    snprintf(text, sizeof text, "override:%s:%ld", lmc_call_operation(call), (long)gettid());
    say(p, text);
    if (is(p->override, "sleep"))
        nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    if (is(p->override, "after"))
        lmc_forward_then(call, after, p);
    else if (is(p->override, "fail"))
        lmc_fail(call, LMC_FAILED, "it was told to fail");
    else if (is(p->override, "answer"))
        lmc_complete(call, LMC_OK);
    else if (!is(p->override, "never"))
        lmc_forward(call);
}

static const lmc_operation operations[] = {
#ifdef OVERRIDE
    {OVERRIDE, SCHEDULING, 0, handle_override, {0}},
#endif
    {NULL, 0, 0, NULL, {0}},
};

/* ---- liveness ---- */

#ifdef LIVE
static void touch(void *self, int64_t id) {
    char text[64];
    snprintf(text, sizeof text, "touch:%lld", (long long)id);
    say(self, text);
    if (is(((probe *)self)->touch, "hang"))
        hang();
}

static void reap(void *self, int64_t timeout, int64_t grace,
                 void (*found)(void *arg, int64_t id), void *arg) {
    probe *p = self;
    char text[64];
    snprintf(text, sizeof text, "reap:%lld:%lld", (long long)(timeout / 1000000000),
             (long long)(grace / 1000000000));
    say(p, text);
    if (p->reap != 0)
        found(arg, p->reap);
}

static int64_t tracked(void *self) { return ((probe *)self)->reap != 0; }

static void drop(void *self, int64_t id) {
    char text[64];
    snprintf(text, sizeof text, "drop:%lld", (long long)id);
    say(self, text);
    if (is(((probe *)self)->drop, "hang"))
        hang();
    if (is(((probe *)self)->drop, "sleep 60"))
        sleep(60);
}

static const lmc_liveness liveness = {touch, reap, tracked, drop, {0}};
#define LIVENESS &liveness
#else
#define LIVENESS NULL
#endif

/* ---- the registrar ---- */

static lmc_status register_zmq(void *self, lmc_zmq_server *server, lmc_error *error) {
    static const char *const clear[] = {"clear", NULL}, *const noop[] = {"noop", NULL};
    static const char *const unhandled[] = {"store_q", NULL};
    probe *p = self;
    lmc_status status = LMC_OK;
    say(p, "register");
    if (is(p->registrar, "fail"))
        return lmc_error_set(error, LMC_FAILED, "it was told not to register");
    if (is(p->registrar, "null"))
        return lmc_zmq_server_add_handler(server, "clear", LMC_NORMAL, NULL, error);
    if (is(p->registrar, "no_pool") || strstr(p->registrar, "pool") == p->registrar ||
        is(p->registrar, "affinity_pool"))
        status =
            lmc_zmq_server_add_handler(server, "clear", LMC_NORMAL, handle_override, error);
    if (status == LMC_OK && is(p->registrar, "pool"))
        status = lmc_zmq_server_add_normal_pool(server, clear, 2, error);
    if (status == LMC_OK && is(p->registrar, "affinity_pool"))
        status = lmc_zmq_server_add_affinity_pool(server, clear, 2, error);
    if (is(p->registrar, "sync_pool"))
        status = lmc_zmq_server_add_normal_pool(server, noop, 2, error);
    if (is(p->registrar, "unhandled"))
        status = lmc_zmq_server_add_normal_pool(server, unhandled, 2, error);
    return status;
}

#ifdef DEPENDS
static const char *const depends[] = {DEPENDS, NULL};
#else
#define depends NULL
#endif

static const lmc_module_class probe_class = {sizeof(lmc_module_class),
                                             0,
                                             NAME,
                                             "1.2",
                                             depends,
                                             create,
                                             close_probe,
                                             report,
                                             operations,
                                             envelopes,
                                             LIVENESS,
                                             register_zmq,
                                             NULL};

LMC_MODULE(&probe_class);
