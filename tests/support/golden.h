/*
 * golden.h: the golden vectors (tests/golden), for unit tests.
 *
 * Everything here ends the test program when a file is missing or not what it should be.
 */
#ifndef LMC_TESTS_GOLDEN_H
#define LMC_TESTS_GOLDEN_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

static inline json_t *golden_load(const char *file) {
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", LMC_GOLDEN_DIR, file);
    json_t *vectors = json_load_file(path, 0, &error);
    assert_non_null(vectors);
    assert_true(json_is_array(vectors));
    return vectors;
}

/* In a block of exactly that size, so that the address sanitizer sees any read beyond it. */
static inline lmc_slice golden_bytes(const char *hex) {
    size_t size = strlen(hex) / 2;
    uint8_t *bytes = malloc(size == 0 ? 1 : size);
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], 0};
        bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return lmc_slice_of(bytes, size);
}

static inline lmc_slice golden_copy(const void *data, size_t size) {
    uint8_t *bytes = malloc(size == 0 ? 1 : size);
    assert_non_null(bytes);
    if (size > 0)
        memcpy(bytes, data, size);
    return lmc_slice_of(bytes, size);
}

static inline void golden_free(lmc_slice bytes) { free((void *)(uintptr_t)bytes.data); }

#define GOLDEN_FRAMES_MAX 12

/* The frames of one vector: uid, operation, payloads. */
typedef struct golden_frames {
    lmc_slice frames[GOLDEN_FRAMES_MAX];
    size_t count;
} golden_frames;

static inline golden_frames golden_read_frames(const json_t *vector, const char *member) {
    golden_frames read = {.count = 0};
    size_t i;
    json_t *hex;
    json_array_foreach(json_object_get(vector, member), i, hex) {
        assert_true(read.count < GOLDEN_FRAMES_MAX);
        read.frames[read.count++] = golden_bytes(json_string_value(hex));
    }
    return read;
}

static inline void golden_free_frames(golden_frames *frames) {
    for (size_t i = 0; i < frames->count; i++)
        golden_free(frames->frames[i]);
}

static inline const char *golden_text(const json_t *vector, const char *member) {
    const char *text = json_string_value(json_object_get(vector, member));
    return text != NULL ? text : "";
}

#endif
