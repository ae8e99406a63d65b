#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>

#include "cache/fold.h"

#define ROWS_MAX 8
#define CHUNKS_MAX 16

typedef struct grid {
    size_t rows, chunks;
    lmc_object_ref cells[ROWS_MAX][CHUNKS_MAX];
    lmc_row row[ROWS_MAX];
} grid;

static void check_retained(const json_t *retain, const grid *g, size_t hit) {
    for (size_t r = 0; r < g->rows; r++) {
        for (size_t c = 0; c < g->chunks; c++) {
            bool kept = c < hit && c >= lmc_row_first(g->row[r].window, hit);
            assert_int_equal(json_integer_value(json_array_get(json_array_get(retain, r), c)),
                             kept);
        }
    }
}

static void every_fold_vector_holds(void **state) {
    (void)state;
    json_error_t error;
    json_t *root = json_load_file(LMC_GOLDEN_DIR "/chunk-hashes.json", 0, &error);
    const json_t *cases = json_object_get(root, "fold_cases");
    assert_true(json_array_size(cases) >= 9);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *test = json_array_get(cases, i);
        const json_t *rows = json_object_get(test, "rows");
        grid g = {.rows = json_array_size(rows)};
        g.chunks = json_array_size(json_array_get(rows, 0));
        for (size_t r = 0; r < g.rows; r++) {
            for (size_t c = 0; c < g.chunks; c++)
                g.cells[r][c] = (lmc_object_ref)json_integer_value(
                    json_array_get(json_array_get(rows, r), c));
            g.row[r] = (lmc_row){.cells = g.cells[r],
                                 .window = json_integer_value(
                                     json_array_get(json_object_get(test, "windows"), r))};
        }
        size_t hit = lmc_fold(g.row, g.rows, g.chunks);
        assert_int_equal(hit, json_integer_value(json_object_get(test, "hit_chunks")));
        check_retained(json_object_get(test, "retain"), &g, hit);
    }
    json_decref(root);
}

static bool serves(const lmc_row *row, size_t length) {
    for (size_t c = lmc_row_first(row->window, length); c < length; c++) {
        if (row->cells[c] == LMC_NO_OBJECT)
            return false;
    }
    return true;
}

static size_t by_definition(const grid *g) {
    for (size_t length = g->chunks; length > 0; length--) {
        bool all = true;
        for (size_t r = 0; r < g->rows; r++)
            all = all && serves(&g->row[r], length);
        if (all)
            return length;
    }
    return 0;
}

static void random_grids_fold_as_the_definition_says(void **state) {
    (void)state;
    unsigned seed = 7;
    for (int round = 0; round < 50000; round++) {
        grid g = {.rows = 1 + (size_t)rand_r(&seed) % ROWS_MAX,
                  .chunks = (size_t)rand_r(&seed) % (CHUNKS_MAX + 1)};
        int holes = rand_r(&seed) % 8;
        for (size_t r = 0; r < g.rows; r++) {
            for (size_t c = 0; c < g.chunks; c++)
                g.cells[r][c] = rand_r(&seed) % 16 >= holes;
            g.row[r] = (lmc_row){.cells = g.cells[r], .window = rand_r(&seed) % 7 - 1};
        }
        assert_int_equal(lmc_fold(g.row, g.rows, g.chunks), by_definition(&g));
    }
}

static void no_rows_serve_everything_and_no_chunks_nothing(void **state) {
    (void)state;
    lmc_object_ref cells[1] = {1};
    lmc_row row = {.cells = cells, .window = 3};
    assert_int_equal(lmc_fold(NULL, 0, 5), 5);
    assert_int_equal(lmc_fold(&row, 1, 0), 0);
    assert_int_equal(lmc_row_first(INT64_MAX, 4), 0);
    assert_int_equal(lmc_row_first(0, 4), 0);
    assert_int_equal(lmc_row_first(1, 4), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fold_vector_holds),
        cmocka_unit_test(random_grids_fold_as_the_definition_says),
        cmocka_unit_test(no_rows_serve_everything_and_no_chunks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
