/* The messages between server and guardian. */
#include "runtime_plugin/plugin_case.h"

#include "runtime_plugin/wire.h"
#include "support/alloc_fault.h"

static lmc_slice all_of(const lmc_buffer *buffer) {
    return lmc_slice_of(buffer->data, buffer->size);
}

static void frames_come_one_after_the_other_and_only_whole(void **state) {
    (void)state;
    lmc_buffer out = LMC_BUFFER_INIT;
    lmc_wire_frame frame;
    size_t used, begin = lmc_wire_begin(&out, LMC_WIRE_LOG, 7);
    lmc_wire_put_int(&out, -5);
    lmc_wire_put_text(&out, lmc_text("t\0x"));
    lmc_wire_end(&out, begin);
    size_t first = out.size;
    lmc_wire_end(&out, lmc_wire_begin(&out, LMC_WIRE_END, 4095));
    for (size_t size = 0; size < first; size++) {
        assert_int_equal(lmc_wire_next(lmc_slice_of(out.data, size), 1000, &frame, &used),
                         LMC_AGAIN);
        assert_int_equal(used, 0);
    }
    assert_int_equal(lmc_wire_next(all_of(&out), 1000, &frame, &used), LMC_OK);
    assert_int_equal(used, first);
    assert_int_equal(frame.type, LMC_WIRE_LOG);
    assert_int_equal(frame.plugin, 7);
    lmc_wire_reader r = lmc_wire_read(&frame);
    assert_int_equal(lmc_wire_get_int(&r), -5);
    assert_false(lmc_wire_done(&r));
    assert_true(lmc_slice_is(lmc_wire_get_text(&r), "t"));
    assert_true(lmc_wire_done(&r));
    lmc_slice rest = lmc_slice_of(out.data + first, out.size - first);
    assert_int_equal(lmc_wire_next(rest, 1000, &frame, &used), LMC_OK);
    assert_int_equal(frame.plugin, 4095);
    assert_int_equal(frame.body.size, 0);
    lmc_buffer_fini(&out);
}

static void another_version_or_too_much_is_refused_at_once(void **state) {
    (void)state;
    lmc_wire_frame frame;
    size_t used;
    const char large[] = {LMC_WIRE_VERSION, LMC_WIRE_LOG, 0, 0, 0, 0, 0, 1};
    assert_int_equal(lmc_wire_next(lmc_slice_of("\2", 1), 1000, &frame, &used), LMC_MALFORMED);
    assert_int_equal(lmc_wire_next(lmc_slice_of(large, sizeof large), 1000, &frame, &used),
                     LMC_MALFORMED);
    assert_int_equal(lmc_wire_next(lmc_slice_of(large, sizeof large), 1u << 24, &frame, &used),
                     LMC_AGAIN);
}

static void put_everything(lmc_buffer *out) {
    char *words[] = {"/bin/sh", "-e", "", NULL};
    lmc_plugin_options options;
    lmc_plugin_options_default(&options);
    options.nice = -3;
    memcpy(options.user, "nobody", 7);
    size_t begin = lmc_wire_begin(out, LMC_WIRE_START, 1);
    lmc_wire_put_options(out, &options);
    lmc_wire_put_strings(out, words, 3);
    lmc_wire_end(out, begin);
}

/* True when the body was what put_everything() wrote; any body must end without harm. */
static bool get_everything(lmc_slice body) {
    lmc_wire_frame frame = {.type = LMC_WIRE_START, .body = body};
    lmc_wire_reader r = lmc_wire_read(&frame);
    lmc_plugin_options options;
    lmc_wire_get_options(&r, &options);
    char **words = lmc_wire_get_strings(&r, 8);
    bool fine = lmc_wire_done(&r) && options.nice == -3 &&
                strcmp(options.user, "nobody") == 0 && strcmp(words[1], "-e") == 0 &&
                strcmp(words[2], "") == 0 && words[3] == NULL;
    lmc_wire_free_strings(words);
    return fine;
}

static void damaged_bodies_do_no_harm(void **state) {
    (void)state;
    lmc_buffer out = LMC_BUFFER_INIT;
    put_everything(&out);
    char *body = out.data + LMC_WIRE_HEAD;
    size_t size = out.size - LMC_WIRE_HEAD;
    assert_true(get_everything(lmc_slice_of(body, size)));
    for (size_t cut = 0; cut < size; cut++) {
        char *copy = malloc(cut + 1); /* of its own, so that a reader beyond it is seen */
        assert_non_null(copy);
        memcpy(copy, body, cut);
        assert_false(get_everything(lmc_slice_of(copy, cut)));
        free(copy);
    }
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            body[i] = (char)(body[i] ^ (1 << bit));
            get_everything(lmc_slice_of(body, size));
            body[i] = (char)(body[i] ^ (1 << bit));
        }
    lmc_buffer_fini(&out);
}

static void lists_have_a_bound_and_strings_no_nul(void **state) {
    (void)state;
    lmc_buffer out = LMC_BUFFER_INIT;
    lmc_wire_frame frame;
    size_t used, begin = lmc_wire_begin(&out, LMC_WIRE_START, 1);
    lmc_wire_put_int(&out, 9);
    lmc_wire_put_text(&out, lmc_slice_of("a\0b", 3));
    lmc_wire_end(&out, begin);
    assert_int_equal(lmc_wire_next(all_of(&out), 1000, &frame, &used), LMC_OK);
    lmc_wire_reader r = lmc_wire_read(&frame);
    assert_null(lmc_wire_get_strings(&r, 8));
    r = lmc_wire_read(&frame);
    lmc_wire_get_int(&r);
    assert_null(lmc_wire_get_string(&r));
    assert_true(r.failed);
    lmc_buffer_fini(&out);
}

static void reports_are_checked(void **state) {
    (void)state;
    lmc_buffer out = LMC_BUFFER_INIT;
    lmc_wire_frame frame;
    lmc_plugin_report got, report = {.state = LMC_PLUGIN_BACKOFF,
                                     .pid = 12,
                                     .exit_code = -9,
                                     .restarts = 3,
                                     .started_ns = 99};
    size_t used;
    lmc_wire_put_report(&out, 5, &report);
    assert_int_equal(lmc_wire_next(all_of(&out), 1000, &frame, &used), LMC_OK);
    assert_true(lmc_wire_get_report(&frame, &got));
    assert_int_equal(got.state, LMC_PLUGIN_BACKOFF);
    assert_int_equal(got.pid, 12);
    assert_int_equal(got.exit_code, -9);
    assert_int_equal(got.restarts, 3);
    assert_int_equal(got.started_ns, 99);
    out.data[LMC_WIRE_HEAD] = LMC_PLUGIN_STATES; /* no such state */
    assert_false(lmc_wire_get_report(&frame, &got));
    lmc_buffer_fini(&out);
}

static void half_a_frame_is_taken_back(void **state) {
    (void)state;
    lmc_buffer out = LMC_BUFFER_INIT;
    lmc_wire_end(&out, lmc_wire_begin(&out, LMC_WIRE_END, 0));
    size_t before = out.size;
    size_t begin = lmc_wire_begin(&out, LMC_WIRE_LOG, 0);
    static char text[100000];
    lmc_fault_arm(1, true);
    lmc_wire_put_text(&out, lmc_slice_of(text, sizeof text));
    lmc_fault_disarm();
    lmc_wire_end(&out, begin);
    assert_true(out.failed);
    assert_int_equal(out.size, before);
    lmc_buffer_fini(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_one_after_the_other_and_only_whole),
        cmocka_unit_test(another_version_or_too_much_is_refused_at_once),
        cmocka_unit_test(damaged_bodies_do_no_harm),
        cmocka_unit_test(lists_have_a_bound_and_strings_no_nul),
        cmocka_unit_test(reports_are_checked),
        cmocka_unit_test(half_a_frame_is_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
