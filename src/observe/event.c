#include "observe/event.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/clock.h"

#define MEMBERS_MAX 16

typedef enum member_kind {
    MEMBER_INT,
    MEMBER_REAL,
    MEMBER_TEXT,
    MEMBER_KEYS,
    MEMBER_INTS,
    MEMBER_INT_LISTS,
    MEMBER_TEXTS,
    MEMBER_BLOBS,
} member_kind;

typedef struct event_member {
    member_kind kind;
    size_t name_at; /* terminated, in the event's bytes */
    union {
        int64_t integer;
        double real;
        struct {
            size_t at, size;
        } text;
        lmc_event_list list;
    } value;
} event_member;

struct lmc_event {
    lmc_mpsc_node node; /* first */
    lmc_events *events;
    int64_t wall_ns, published_ns;
    size_t session_at, session_size;
    event_member members[MEMBERS_MAX];
    size_t count;
    lmc_buffer bytes;  /* name first */
    size_t list_bytes; /* of all lists */
    const void *kind;  /* of the object; NULL: there is none */
    void *object;
    void (*release)(void *object);
};

lmc_event *lmc_event_make(lmc_events *events, const char *name, lmc_slice session) {
    lmc_event *event = calloc(1, sizeof *event);
    if (event == NULL)
        return NULL;
    event->events = events;
    lmc_buffer_append(&event->bytes, name, strlen(name) + 1);
    event->session_at = event->bytes.size;
    event->session_size = session.size;
    lmc_buffer_append(&event->bytes, session.data, session.size);
    if (event->bytes.failed) {
        lmc_event_free(event);
        return NULL;
    }
    return event;
}

static bool is_list(member_kind kind) { return kind >= MEMBER_KEYS; }

void lmc_event_free(lmc_event *event) {
    if (event->kind != NULL)
        event->release(event->object);
    for (size_t i = 0; i < event->count; i++)
        if (is_list(event->members[i].kind))
            free(event->members[i].value.list.items);
    lmc_buffer_fini(&event->bytes);
    free(event);
}

lmc_mpsc_node *lmc_event_node(lmc_event *event) { return &event->node; }

lmc_event *lmc_event_of_node(lmc_mpsc_node *node) { return (lmc_event *)node; }

size_t lmc_event_bytes(const lmc_event *event) {
    return sizeof *event + event->bytes.size + event->list_bytes;
}

int64_t lmc_event_published_ns(const lmc_event *event) { return event->published_ns; }

/* ---- filling ---- */

/* The next member, or NULL: no event, no room, or no memory. */
static event_member *add_member(lmc_event *event, const char *name, member_kind kind) {
    if (event == NULL || event->count == MEMBERS_MAX)
        return NULL;
    event_member *member = &event->members[event->count];
    *member = (event_member){.kind = kind, .name_at = event->bytes.size};
    lmc_buffer_append(&event->bytes, name, strlen(name) + 1);
    if (event->bytes.failed)
        return NULL;
    event->count++;
    return member;
}

void lmc_event_put_int(lmc_event *event, const char *name, int64_t value) {
    event_member *member = add_member(event, name, MEMBER_INT);
    if (member != NULL)
        member->value.integer = value;
}

void lmc_event_put_real(lmc_event *event, const char *name, double value) {
    event_member *member = add_member(event, name, MEMBER_REAL);
    if (member != NULL)
        member->value.real = value;
}

void lmc_event_put_text(lmc_event *event, const char *name, lmc_slice value) {
    event_member *member = add_member(event, name, MEMBER_TEXT);
    if (member == NULL)
        return;
    member->value.text.at = event->bytes.size;
    member->value.text.size = value.size;
    lmc_buffer_append(&event->bytes, value.data, value.size);
    if (event->bytes.failed)
        event->count--;
}

/* Without memory for the list the event has no such member. */
static void add_list(lmc_event *event, const char *name, member_kind kind,
                     lmc_event_list list) {
    event_member *member =
        list.items != NULL || list.count == 0 ? add_member(event, name, kind) : NULL;
    if (member == NULL) {
        free(list.items);
        return;
    }
    member->value.list = list;
    event->list_bytes += list.bytes;
}

void lmc_event_put_keys(lmc_event *event, const char *name, const lmc_object_key *keys,
                        size_t count) {
    if (event != NULL)
        add_list(event, name, MEMBER_KEYS, lmc_event_copy_keys(keys, count));
}

void lmc_event_put_ints(lmc_event *event, const char *name, const int64_t *values,
                        size_t count) {
    if (event != NULL)
        add_list(event, name, MEMBER_INTS, lmc_event_copy_ints(values, count));
}

void lmc_event_put_int_lists(lmc_event *event, const char *name, const lmc_ints *lists,
                             size_t count) {
    if (event != NULL)
        add_list(event, name, MEMBER_INT_LISTS, lmc_event_copy_int_lists(lists, count));
}

void lmc_event_put_texts(lmc_event *event, const char *name, const lmc_slice *texts,
                         size_t count) {
    if (event != NULL)
        add_list(event, name, MEMBER_TEXTS, lmc_event_copy_slices(texts, count));
}

void lmc_event_put_blobs(lmc_event *event, const char *name, const lmc_slice *blobs,
                         size_t count) {
    if (event != NULL)
        add_list(event, name, MEMBER_BLOBS, lmc_event_copy_slices(blobs, count));
}

void lmc_event_attach(lmc_event *event, const void *kind, void *object,
                      void (*release)(void *object)) {
    event->kind = kind;
    event->object = object;
    event->release = release;
}

void lmc_event_publish(lmc_event *event) {
    if (event == NULL)
        return;
    event->wall_ns = lmc_system_clock.wall_ns(&lmc_system_clock);
    event->published_ns = lmc_now(&lmc_system_clock);
    lmc_events_post(event->events, event);
}

/* ---- reading ---- */

const char *lmc_event_name(const lmc_event *event) { return event->bytes.data; }

int64_t lmc_event_time_ns(const lmc_event *event) { return event->wall_ns; }

lmc_slice lmc_event_session(const lmc_event *event) {
    return lmc_slice_of(event->bytes.data + event->session_at, event->session_size);
}

static const event_member *find_member(const lmc_event *event, const char *name,
                                       member_kind kind) {
    for (size_t i = 0; i < event->count; i++)
        if (event->members[i].kind == kind &&
            strcmp(event->bytes.data + event->members[i].name_at, name) == 0)
            return &event->members[i];
    return NULL;
}

bool lmc_event_int(const lmc_event *event, const char *name, int64_t *value) {
    const event_member *member = find_member(event, name, MEMBER_INT);
    if (member != NULL)
        *value = member->value.integer;
    return member != NULL;
}

bool lmc_event_real(const lmc_event *event, const char *name, double *value) {
    const event_member *member = find_member(event, name, MEMBER_REAL);
    if (member != NULL)
        *value = member->value.real;
    return member != NULL;
}

bool lmc_event_text(const lmc_event *event, const char *name, lmc_slice *value) {
    const event_member *member = find_member(event, name, MEMBER_TEXT);
    if (member != NULL)
        *value =
            lmc_slice_of(event->bytes.data + member->value.text.at, member->value.text.size);
    return member != NULL;
}

bool lmc_event_keys(const lmc_event *event, const char *name, lmc_object_key_list *value) {
    const event_member *member = find_member(event, name, MEMBER_KEYS);
    if (member != NULL)
        *value = (lmc_object_key_list){member->value.list.items, member->value.list.count};
    return member != NULL;
}

bool lmc_event_ints(const lmc_event *event, const char *name, lmc_ints *value) {
    const event_member *member = find_member(event, name, MEMBER_INTS);
    if (member != NULL)
        *value = (lmc_ints){member->value.list.items, member->value.list.count};
    return member != NULL;
}

bool lmc_event_int_lists(const lmc_event *event, const char *name, lmc_int_lists *value) {
    const event_member *member = find_member(event, name, MEMBER_INT_LISTS);
    if (member != NULL)
        *value = (lmc_int_lists){member->value.list.items, member->value.list.count};
    return member != NULL;
}

bool lmc_event_slices(const lmc_event *event, const char *name, lmc_slices *value) {
    const event_member *member = find_member(event, name, MEMBER_TEXTS);
    if (member == NULL)
        member = find_member(event, name, MEMBER_BLOBS);
    if (member != NULL)
        *value = (lmc_slices){member->value.list.items, member->value.list.count};
    return member != NULL;
}

void *lmc_event_attached(const lmc_event *event, const void *kind) {
    return event->kind == kind ? event->object : NULL;
}

/* Shows one member that is a list. */
static void visit_list(const event_member *member, const char *name,
                       const lmc_event_visitor *visitor, void *arg) {
    const void *items = member->value.list.items;
    size_t count = member->value.list.count;
    if (member->kind == MEMBER_KEYS)
        visitor->keys(arg, name, &(lmc_object_key_list){items, count});
    else if (member->kind == MEMBER_INTS)
        visitor->ints(arg, name, &(lmc_ints){items, count});
    else if (member->kind == MEMBER_INT_LISTS)
        visitor->int_lists(arg, name, &(lmc_int_lists){items, count});
    else
        visitor->slices(arg, name, &(lmc_slices){items, count}, member->kind == MEMBER_TEXTS);
}

void lmc_event_each(const lmc_event *event, const lmc_event_visitor *visitor, void *arg) {
    for (size_t i = 0; i < event->count; i++) {
        const event_member *member = &event->members[i];
        const char *name = event->bytes.data + member->name_at;
        if (is_list(member->kind))
            visit_list(member, name, visitor, arg);
        else if (member->kind == MEMBER_INT)
            visitor->integer(arg, name, member->value.integer);
        else if (member->kind == MEMBER_REAL)
            visitor->real(arg, name, member->value.real);
        else
            visitor->text(arg, name,
                          lmc_slice_of(event->bytes.data + member->value.text.at,
                                       member->value.text.size));
    }
}
