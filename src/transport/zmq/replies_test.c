#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/zmq/replies.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static void count(void *times) { ++*(int *)times; }

/* Frames of `size` bytes, each gone before the next; `all` bytes together. */
static void pass(lmc_zmq_replies *replies, lmc_zmq_peer *peer, size_t size, size_t all) {
    for (size_t at = 0; at < all; at += size) {
        zmq_msg_t frame;
        void *data;
        zmq_msg_init(&frame);
        assert_int_equal(lmc_zmq_replies_frame(replies, peer, size, &frame, &data), LMC_OK);
        ((char *)data)[size - 1] = 'x';
        zmq_msg_close(&frame);
    }
}

static void every_eight_mebibytes_that_are_gone_are_told_of(void **state) {
    (void)state;
    lmc_zmq_replies replies = {.peer_max = MIB, .total_max = MIB, .reuse_max = MIB};
    lmc_zmq_peers peers;
    int times = 0;
    lmc_zmq_replies_init(&replies);
    assert_int_equal(lmc_zmq_peers_init(&peers, NULL), LMC_OK);
    lmc_zmq_peer *peer = lmc_zmq_peers_add(&peers, "abcde", 5, 3);
    assert_non_null(peer);
    pass(&replies, peer, 64 * KIB, 8 * MIB);
    lmc_zmq_replies_notify(&replies, count, &times);
    pass(&replies, peer, 64 * KIB, 8 * MIB - 64 * KIB);
    assert_int_equal(times, 0);
    pass(&replies, peer, 64 * KIB, 64 * KIB);
    assert_int_equal(times, 1);
    pass(&replies, peer, 256 * KIB, 20 * MIB);
    assert_int_equal(times, 3);
    lmc_zmq_replies_notify(&replies, NULL, NULL);
    pass(&replies, peer, 64 * KIB, 16 * MIB);
    assert_int_equal(times, 3);
    assert_int_equal(atomic_load(&replies.unread), 0);
    lmc_zmq_peers_remove(&peers, peer);
    lmc_zmq_peer_drop(peer);
    lmc_zmq_peers_fini(&peers);
    lmc_zmq_replies_fini(&replies);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_eight_mebibytes_that_are_gone_are_told_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
