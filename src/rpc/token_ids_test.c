#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/token_ids.h"

#define IDS_MAX 300
#define SIZE_MAX_EACH 9

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Writes an integer in `width` bytes after its marker, 0: in the marker. */
static uint8_t *put(uint8_t *out, uint64_t value, int width) {
    static const uint8_t markers[] = {0, 0xcc, 0xcd, 0, 0xce, 0, 0, 0, 0xcf};
    if (width == 0) {
        *out++ = (uint8_t)value;
        return out;
    }
    *out++ = markers[width];
    for (int i = width - 1; i >= 0; i--)
        *out++ = (uint8_t)(value >> (8 * i));
    return out;
}

typedef struct sample {
    uint8_t bytes[IDS_MAX * SIZE_MAX_EACH];
    uint32_t ids[IDS_MAX];
    size_t size, count;
} sample;

static void add(sample *s, uint64_t value, int width) {
    s->size = (size_t)(put(s->bytes + s->size, value, width) - s->bytes);
    s->ids[s->count++] = (uint32_t)value;
}

/* Widths up to `widest`, minimal or not. */
static void add_some(sample *s, size_t count, int widest) {
    static const int widths[] = {0, 1, 2, 4, 8};
    for (size_t i = 0; i < count; i++) {
        int width = widths[next_random() % (size_t)(widest + 1)];
        uint64_t limit = width == 0 ? 0x80 : width >= 4 ? UINT64_C(1) << 32 : 1u << (8 * width);
        add(s, next_random() % limit, width);
    }
}

/* Reads from memory that ends with the last byte, so that a sanitizer sees every overrun. */
static bool read_back(const uint8_t *bytes, size_t size, size_t count, uint32_t *ids,
                      bool *out_of_range, size_t *left) {
    uint8_t *exact = malloc(size > 0 ? size : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, size);
    lmc_mp_reader reader = lmc_mp_reader_of((lmc_slice){exact, size});
    *out_of_range = false;
    bool ok = lmc_mp_read_token_ids(&reader, count, ids, out_of_range);
    *left = lmc_mp_left(&reader);
    free(exact);
    return ok;
}

static void expect_ids(const sample *s) {
    uint32_t ids[IDS_MAX + 1];
    bool out_of_range;
    size_t left;
    ids[s->count] = 0xabadcafe;
    assert_true(read_back(s->bytes, s->size, s->count, ids, &out_of_range, &left));
    assert_false(out_of_range);
    assert_int_equal(left, 0);
    assert_memory_equal(ids, s->ids, s->count * sizeof *ids);
    assert_int_equal(ids[s->count], 0xabadcafe); /* nothing is written behind them */
    assert_true(read_back(s->bytes, s->size, s->count, NULL, &out_of_range, &left));
    assert_int_equal(left, 0);
}

static void ids_of_any_mix_of_widths_are_read(void **state) {
    (void)state;
    for (size_t count = 0; count < IDS_MAX; count++) {
        for (int widest = 0; widest <= 4; widest++) {
            static sample s;
            s.size = s.count = 0;
            add_some(&s, count, widest);
            expect_ids(&s);
        }
    }
}

static void what_follows_the_ids_is_left(void **state) {
    (void)state;
    for (size_t more = 0; more < 80; more++) {
        static sample s;
        uint32_t ids[IDS_MAX];
        bool out_of_range;
        size_t left, count = 48;
        s.size = s.count = 0;
        add_some(&s, count, 3);
        memset(s.bytes + s.size, 0xc0, more);
        assert_true(read_back(s.bytes, s.size + more, count, ids, &out_of_range, &left));
        assert_int_equal(left, more);
        assert_memory_equal(ids, s.ids, count * sizeof *ids);
    }
}

static void an_id_out_of_range_is_noticed_at_every_place(void **state) {
    (void)state;
    for (size_t at = 0; at < 40; at++) {
        for (int kind = 0; kind < 2; kind++) {
            static sample s;
            uint32_t ids[IDS_MAX];
            bool out_of_range;
            size_t left;
            s.size = s.count = 0;
            add_some(&s, at, 3);
            if (kind == 0) {
                s.bytes[s.size++] = 0xff; /* -1 */
                s.count++;
            } else {
                add(&s, UINT64_C(1) << 32, 8);
            }
            add_some(&s, 40 - at, 3);
            assert_true(read_back(s.bytes, s.size, s.count, ids, &out_of_range, &left));
            assert_true(out_of_range);
            assert_int_equal(left, 0);
            assert_memory_equal(ids + at + 1, s.ids + at + 1, (40 - at) * sizeof *ids);
        }
    }
}

static void what_is_no_integer_is_refused_at_every_place(void **state) {
    (void)state;
    static const uint8_t others[] = {0x80, 0x90, 0xa0, 0xc0, 0xc3, 0xc4, 0xca, 0xd9, 0xdc};
    for (size_t at = 0; at < 40; at++) {
        for (size_t i = 0; i < sizeof others; i++) {
            static sample s;
            uint32_t ids[IDS_MAX];
            bool out_of_range;
            size_t left;
            s.size = s.count = 0;
            add_some(&s, at, 3);
            s.bytes[s.size++] = others[i];
            s.count++;
            add_some(&s, 40 - at, 3);
            assert_false(read_back(s.bytes, s.size, s.count, ids, &out_of_range, &left));
            assert_false(read_back(s.bytes, s.size, s.count, NULL, &out_of_range, &left));
        }
    }
}

static void ids_that_are_cut_off_are_refused(void **state) {
    (void)state;
    static sample s;
    s.size = s.count = 0;
    add_some(&s, 60, 3);
    add(&s, 70000, 4);
    for (size_t size = 0; size < s.size; size++) {
        uint32_t ids[IDS_MAX];
        bool out_of_range;
        size_t left;
        assert_false(read_back(s.bytes, size, s.count, ids, &out_of_range, &left));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_of_any_mix_of_widths_are_read),
        cmocka_unit_test(what_follows_the_ids_is_left),
        cmocka_unit_test(an_id_out_of_range_is_noticed_at_every_place),
        cmocka_unit_test(what_is_no_integer_is_refused_at_every_place),
        cmocka_unit_test(ids_that_are_cut_off_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
