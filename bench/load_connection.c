#include "load_connection.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#define NS_PER_S UINT64_C(1000000000)
#define PATIENCE_MS 30000       /* a reply that takes longer ends the run */
#define LENT_FROM ((size_t)512) /* larger frames are lent to libzmq, not copied */

uint64_t load_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void load_sleep(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

/* ---- requests ---- */

static void keep(void *data, void *hint) {
    (void)data;
    (void)hint;
}

static int make_frame(unsigned char *data, size_t size, zmq_msg_t *message) {
    if (size >= LENT_FROM)
        return zmq_msg_init_data(message, data, size, keep, NULL);
    if (zmq_msg_init_size(message, size) != 0)
        return -1;
    memcpy(zmq_msg_data(message), data, size);
    return 0;
}

/* The uid is the slot, as a 32-bit integer, so that a reply finds its slot. */
static bool send_request(load_connection *c, unsigned index) {
    load_slot *slot = &c->slots[index];
    const plan_request *request = &c->plan->requests[slot->request];
    unsigned char uid[5] = {0xce, (unsigned char)(index >> 24), (unsigned char)(index >> 16),
                            (unsigned char)(index >> 8), (unsigned char)index};
    slot->sent_ns = load_now_ns();
    if (zmq_send(c->socket, uid, sizeof uid, ZMQ_SNDMORE) < 0)
        return false;
    for (size_t i = 0; i < request->frame_count; i++) {
        const plan_frame *frame = &request->frames[i];
        unsigned char *copy = slot->copies[slot->request][i];
        int more = i + 1 < request->frame_count ? ZMQ_SNDMORE : 0;
        zmq_msg_t message;
        if (make_frame(copy != NULL ? copy : frame->data, frame->size, &message) != 0 ||
            zmq_msg_send(&message, c->socket, more) < 0)
            return false;
    }
    return true;
}

/* Every frame of the slot's last cycle has been sent, because it was answered. */
static void fill_marks(load_connection *c, load_slot *slot, uint32_t number) {
    for (size_t r = 0; r < c->plan->request_count; r++) {
        const plan_request *request = &c->plan->requests[r];
        for (size_t i = 0; i < request->frame_count; i++) {
            if (slot->copies[r][i] != NULL)
                plan_fill_marks(&request->frames[i], slot->copies[r][i], number, c->index);
        }
    }
}

static bool start_cycle(load_connection *c, unsigned index) {
    uint32_t number = atomic_fetch_add(&c->run->started, 1);
    if (c->plan->cycles > 0 && number >= c->plan->cycles) {
        c->going--;
        return true;
    }
    if (c->plan->pause_us > 0)
        load_sleep((double)c->plan->pause_us / 1e6);
    c->slots[index].request = 0;
    fill_marks(c, &c->slots[index], c->run->first_number + number);
    return send_request(c, index);
}

/* ---- replies ---- */

static void note_result(load_result *result, zmq_msg_t *frame) {
    size_t head = zmq_msg_size(frame) < RESULT_HEAD ? zmq_msg_size(frame) : RESULT_HEAD;
    result->some = true;
    result->size = zmq_msg_size(frame);
    memcpy(result->head, zmq_msg_data(frame), head);
}

static bool read_reply(load_connection *c, unsigned *index) {
    unsigned char uid[8];
    if (zmq_recv(c->socket, uid, sizeof uid, 0) != 5)
        return false;
    *index = (unsigned)uid[1] << 24 | (unsigned)uid[2] << 16 | (unsigned)uid[3] << 8 | uid[4];
    if (*index >= c->plan->outstanding)
        return false;
    zmq_msg_t part;
    zmq_msg_init(&part);
    bool ok = true;
    for (int i = 1; ok && (i == 1 || zmq_msg_more(&part)); i++) {
        ok = zmq_msg_recv(&part, c->socket, 0) >= 0;
        if (ok && i == 2)
            note_result(&c->results[c->slots[*index].request], &part);
    }
    zmq_msg_close(&part);
    return ok;
}

/* The reply to a slot's request has come: on to the next request. */
static bool advance(load_connection *c, unsigned index, load_phase phase) {
    load_slot *slot = &c->slots[index];
    if (phase == MEASURING)
        histogram_add(&c->latencies[slot->request], load_now_ns() - slot->sent_ns);
    slot->request++;
    if (slot->request < c->plan->request_count)
        return send_request(c, index);
    c->cycles += phase == MEASURING;
    return start_cycle(c, index);
}

static void *run_connection(void *arg) {
    load_connection *c = arg;
    load_phase phase = WARMING;
    bool connected = false;
    c->going = c->plan->outstanding;
    for (unsigned i = 0; i < c->plan->outstanding && !c->failed; i++)
        c->failed = !start_cycle(c, i);
    while (!c->failed && c->going > 0 &&
           (phase = (load_phase)atomic_load(&c->run->phase)) != ENDED) {
        unsigned index;
        c->failed = !read_reply(c, &index) || !advance(c, index, phase);
        if (!connected)
            atomic_fetch_add(&c->run->connected, 1);
        connected = true;
    }
    if (!connected)
        atomic_fetch_add(&c->run->connected, 1);
    return NULL;
}

/* ---- life ---- */

static bool copy_marked(load_connection *c, load_slot *slot) {
    for (size_t r = 0; r < c->plan->request_count; r++) {
        const plan_request *request = &c->plan->requests[r];
        for (size_t i = 0; i < request->frame_count; i++) {
            const plan_frame *frame = &request->frames[i];
            if (frame->mark_count == 0)
                continue;
            slot->copies[r][i] = malloc(frame->size);
            if (slot->copies[r][i] == NULL)
                return false;
            memcpy(slot->copies[r][i], frame->data, frame->size);
        }
    }
    return true;
}

static void *open_socket(void *context) {
    int unlimited = 0, none = 0, patience = PATIENCE_MS;
    void *socket = zmq_socket(context, ZMQ_DEALER);
    if (socket == NULL)
        return NULL;
    zmq_setsockopt(socket, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience, sizeof patience);
    return socket;
}

bool load_connection_open(load_connection *c, load_run *run, void *context, unsigned index) {
    c->run = run;
    c->plan = run->plan;
    c->index = index;
    c->slots = calloc(c->plan->outstanding, sizeof *c->slots);
    c->latencies = calloc(c->plan->request_count, sizeof *c->latencies);
    c->socket = open_socket(context);
    bool ok = c->slots != NULL && c->latencies != NULL && c->socket != NULL;
    for (unsigned i = 0; ok && i < c->plan->outstanding; i++)
        ok = copy_marked(c, &c->slots[i]);
    return ok && zmq_connect(c->socket, c->plan->endpoint) == 0 &&
           pthread_create(&c->thread, NULL, run_connection, c) == 0;
}

void load_connection_free(load_connection *c) {
    for (unsigned i = 0; c->slots != NULL && i < c->plan->outstanding; i++) {
        for (size_t r = 0; r < PLAN_REQUESTS_MAX; r++) {
            for (size_t k = 0; k < PLAN_FRAMES_MAX; k++)
                free(c->slots[i].copies[r][k]);
        }
    }
    free(c->slots);
    free(c->latencies);
}
