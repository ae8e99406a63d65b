#include "observe/event.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/clock.h"

#define MEMBERS_MAX 16

typedef enum member_kind { MEMBER_INT, MEMBER_REAL, MEMBER_TEXT } member_kind;

typedef struct event_member {
    member_kind kind;
    size_t name_at; /* terminated, in the event's bytes */
    union {
        int64_t integer;
        double real;
        struct {
            size_t at, size;
        } text;
    } value;
} event_member;

struct lmc_event {
    lmc_mpsc_node node; /* first */
    lmc_events *events;
    int64_t wall_ns, published_ns;
    size_t session_at, session_size;
    event_member members[MEMBERS_MAX];
    size_t count;
    lmc_buffer bytes; /* name first */
    const void *kind; /* of the object; NULL: there is none */
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

void lmc_event_free(lmc_event *event) {
    if (event->kind != NULL)
        event->release(event->object);
    lmc_buffer_fini(&event->bytes);
    free(event);
}

lmc_mpsc_node *lmc_event_node(lmc_event *event) { return &event->node; }

lmc_event *lmc_event_of_node(lmc_mpsc_node *node) { return (lmc_event *)node; }

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

void *lmc_event_attached(const lmc_event *event, const void *kind) {
    return event->kind == kind ? event->object : NULL;
}

void lmc_event_each(const lmc_event *event, const lmc_event_visitor *visitor, void *arg) {
    for (size_t i = 0; i < event->count; i++) {
        const event_member *member = &event->members[i];
        const char *name = event->bytes.data + member->name_at;
        switch (member->kind) {
        case MEMBER_INT:
            visitor->integer(arg, name, member->value.integer);
            break;
        case MEMBER_REAL:
            visitor->real(arg, name, member->value.real);
            break;
        case MEMBER_TEXT:
            visitor->text(arg, name,
                          lmc_slice_of(event->bytes.data + member->value.text.at,
                                       member->value.text.size));
            break;
        }
    }
}
