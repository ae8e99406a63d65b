#include "base/bytes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"

#define SMALLEST ((size_t)64)

void lmc_buffer_fini(lmc_buffer *buffer) {
    free(buffer->data);
    *buffer = (lmc_buffer)LMC_BUFFER_INIT;
}

void lmc_buffer_clear(lmc_buffer *buffer) {
    buffer->size = 0;
    buffer->failed = false;
    if (buffer->data != NULL)
        buffer->data[0] = '\0';
}

bool lmc_buffer_reserve(lmc_buffer *buffer, size_t more) {
    if (buffer->failed)
        return false;
    if (buffer->data != NULL && buffer->capacity - buffer->size > more)
        return true;
    size_t wanted;
    if (__builtin_add_overflow(buffer->size, more, &wanted) || wanted > SIZE_MAX / 4) {
        buffer->failed = true;
        return false;
    }
    size_t capacity = buffer->capacity + buffer->capacity / 2;
    if (capacity <= wanted)
        capacity = wanted + 1;
    if (capacity < SMALLEST)
        capacity = SMALLEST;
    char *grown = realloc(buffer->data, capacity);
    if (grown == NULL) {
        buffer->failed = true;
        return false;
    }
    buffer->data = grown;
    buffer->capacity = capacity;
    buffer->data[buffer->size] = '\0';
    return true;
}

void lmc_buffer_append(lmc_buffer *buffer, const void *data, size_t size) {
    if (!lmc_buffer_reserve(buffer, size))
        return;
    if (size > 0)
        memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    buffer->data[buffer->size] = '\0';
}

void lmc_buffer_text(lmc_buffer *buffer, const char *text) {
    lmc_buffer_append(buffer, text, strlen(text));
}

void lmc_buffer_char(lmc_buffer *buffer, char c) { lmc_buffer_append(buffer, &c, 1); }

void lmc_buffer_vprintf(lmc_buffer *buffer, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length < 0) {
        buffer->failed = true;
    } else if (lmc_buffer_reserve(buffer, (size_t)length)) {
        vsnprintf(buffer->data + buffer->size, (size_t)length + 1, format, again);
        buffer->size += (size_t)length;
    }
    va_end(again);
}

void lmc_buffer_printf(lmc_buffer *buffer, const char *format, ...) {
    va_list args;
    va_start(args, format);
    lmc_buffer_vprintf(buffer, format, args);
    va_end(args);
}

char *lmc_buffer_take(lmc_buffer *buffer) {
    char *data = NULL;
    if (lmc_buffer_reserve(buffer, 0)) {
        data = buffer->data;
        buffer->data = NULL;
    }
    lmc_buffer_fini(buffer);
    return data;
}

size_t lmc_utf8_length(const void *text, size_t size) {
    const unsigned char *at = text;
    if (size == 0)
        return 0;
    if (at[0] < 0x80)
        return 1;
    if (at[0] < 0xC2 || at[0] > 0xF4)
        return 0;
    size_t length = at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : 4;
    if (size < length)
        return 0;
    /* The second byte's range excludes overlong forms, surrogates and what is above U+10FFFF.
     */
    unsigned char low = at[0] == 0xE0 ? 0xA0 : at[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char high = at[0] == 0xED ? 0x9F : at[0] == 0xF4 ? 0x8F : 0xBF;
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    }
    return length;
}

bool lmc_slice_is_utf8(lmc_slice text) {
    const unsigned char *at = text.data;
    size_t left = text.size;
    while (left > 0) {
        size_t length = lmc_utf8_length(at, left);
        if (length == 0)
            return false;
        at += length;
        left -= length;
    }
    return true;
}

size_t lmc_slice_code_points(lmc_slice text) {
    const unsigned char *at = text.data;
    size_t count = 0;
    for (size_t i = 0; i < text.size; i++)
        count += (at[i] & 0xC0) != 0x80;
    return count;
}

void lmc_hex(const void *data, size_t size, char *out) {
    static const char digits[] = "0123456789abcdef";
    const unsigned char *at = data;
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[at[i] >> 4];
        out[2 * i + 1] = digits[at[i] & 15];
    }
    out[2 * size] = '\0';
}

lmc_status lmc_random(void *out, size_t size) {
    char *at = out;
    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return LMC_FAILED;
        at += got;
        size -= (size_t)got;
    }
    return LMC_OK;
}

void lmc_uuid4(char out[37]) {
    unsigned char raw[16];
    if (lmc_random(raw, sizeof raw) != LMC_OK) {
        /* Unique enough for a name; nothing secret is made from it. */
        int64_t parts[2] = {lmc_system_clock.wall_ns(&lmc_system_clock),
                            lmc_now(&lmc_system_clock)};
        memcpy(raw, parts, sizeof raw);
    }
    raw[6] = (unsigned char)((raw[6] & 0x0F) | 0x40);
    raw[8] = (unsigned char)((raw[8] & 0x3F) | 0x80);
    char hex[33];
    lmc_hex(raw, sizeof raw, hex);
    snprintf(out, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}
