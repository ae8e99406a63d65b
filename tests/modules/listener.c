/*
 * listener.c: a module for the house tests that writes down every event it is told to follow.
 *
 * Configuration: "events", names separated by ','; "members", which members to show, likewise;
 * "trace", a file. One line per event:
 *     name<TAB>session<TAB>member=value<TAB>...
 * Keys are hash:model:rank:group:salt in hexadecimal and text, lists stand in brackets.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lmcached/messages.h>
#include <lmcached/module.h>

#define NAMES_MAX 48

typedef struct names {
    char text[1024];
    const char *items[NAMES_MAX];
    size_t count;
} names;

static struct {
    names events, members;
    char trace[256];
} listener;

static lmc_status read_names(lmc_build *build, const char *option, names *out,
                             lmc_error *error) {
    lmc_slice text = {0};
    lmc_status status = lmc_build_config_text(build, option, &text, error);
    if (status != LMC_OK || text.size >= sizeof out->text)
        return status;
    memcpy(out->text, text.data, text.size);
    char *rest = out->text;
    for (char *name; out->count < NAMES_MAX && (name = strsep(&rest, ",")) != NULL;)
        out->items[out->count++] = name;
    return LMC_OK;
}

static void write_hex(FILE *out, lmc_slice bytes) {
    for (size_t i = 0; i < bytes.size; i++)
        fprintf(out, "%02x", ((const unsigned char *)bytes.data)[i]);
}

static void write_text(FILE *out, lmc_slice text) {
    fwrite(text.data != NULL ? text.data : "", 1, text.size, out);
}

static void write_key(FILE *out, const lmc_object_key *key) {
    write_hex(out, key->chunk_hash);
    fprintf(out, ":");
    write_text(out, key->model_name);
    fprintf(out, ":%llx:%lld:", (long long)key->kv_rank, (long long)key->object_group_id);
    write_text(out, key->cache_salt);
}

static void write_ints(FILE *out, lmc_ints ints) {
    fprintf(out, "[");
    for (size_t i = 0; i < ints.count; i++)
        fprintf(out, "%s%lld", i > 0 ? "," : "", (long long)ints.items[i]);
    fprintf(out, "]");
}

static void write_member(FILE *out, const lmc_event *event, const char *name) {
    int64_t number;
    lmc_slice text;
    lmc_object_key_list keys;
    lmc_ints ints;
    lmc_int_lists lists;
    lmc_slices slices;
    if (lmc_event_int(event, name, &number)) {
        fprintf(out, "\t%s=%lld", name, (long long)number);
    } else if (lmc_event_text(event, name, &text)) {
        fprintf(out, "\t%s=", name);
        write_text(out, text);
    } else if (lmc_event_keys(event, name, &keys)) {
        fprintf(out, "\t%s=[", name);
        for (size_t i = 0; i < keys.count; i++) {
            fprintf(out, "%s", i > 0 ? "," : "");
            write_key(out, &keys.items[i]);
        }
        fprintf(out, "]");
    } else if (lmc_event_ints(event, name, &ints)) {
        fprintf(out, "\t%s=", name);
        write_ints(out, ints);
    } else if (lmc_event_int_lists(event, name, &lists)) {
        fprintf(out, "\t%s=[", name);
        for (size_t i = 0; i < lists.count; i++)
            write_ints(out, lists.items[i]);
        fprintf(out, "]");
    } else if (lmc_event_slices(event, name, &slices)) {
        fprintf(out, "\t%s=[", name);
        for (size_t i = 0; i < slices.count; i++) {
            fprintf(out, "%s", i > 0 ? "," : "");
            write_hex(out, slices.items[i]);
        }
        fprintf(out, "]");
    }
}

static void receive(void *arg, const lmc_event *event) {
    FILE *out = fopen(listener.trace, "ae");
    (void)arg;
    if (out == NULL)
        abort();
    fprintf(out, "%s\t", lmc_event_name(event));
    write_text(out, lmc_event_session(event));
    for (size_t i = 0; i < listener.members.count; i++)
        write_member(out, event, listener.members.items[i]);
    fprintf(out, "\n");
    fclose(out);
}

static lmc_status create_listener(lmc_build *build, void **self, lmc_error *error) {
    lmc_slice trace = {0};
    lmc_status status = read_names(build, "events", &listener.events, error);
    if (status == LMC_OK)
        status = read_names(build, "members", &listener.members, error);
    if (status == LMC_OK)
        status = lmc_build_config_text(build, "trace", &trace, error);
    if (status == LMC_OK && trace.size < sizeof listener.trace)
        memcpy(listener.trace, trace.data, trace.size);
    for (size_t i = 0; i < listener.events.count && status == LMC_OK; i++)
        status = lmc_subscribe(lmc_build_context(build), listener.events.items[i], receive,
                               NULL, error);
    *self = &listener;
    return status;
}

static const lmc_module_class listener_class = {
    .size = sizeof listener_class, .name = "ListenerModule", .create = create_listener};
LMC_MODULE(&listener_class);
