/*
 * bytes.h: growable byte buffers and small helpers on slices.
 *
 * A buffer's data is always terminated with a NUL that does not count, so text can be printed.
 * Growing can fail; the failure is remembered in `failed` and later appends do nothing, so that
 * a caller may append many times and test once. Owned by one thread at a time.
 */
#ifndef LMC_BASE_BYTES_H
#define LMC_BASE_BYTES_H

#include <lmcached/types.h>
#include <stdarg.h>
#include <string.h>

typedef struct lmc_buffer {
    char *data; /* NULL while empty and never grown */
    size_t size;
    size_t capacity;
    bool failed; /* an allocation failed; content is incomplete */
} lmc_buffer;

#define LMC_BUFFER_INIT \
    { 0 }

void lmc_buffer_fini(lmc_buffer *buffer);  /* frees; the buffer may be used again */
void lmc_buffer_clear(lmc_buffer *buffer); /* keeps the memory */
bool lmc_buffer_reserve(lmc_buffer *buffer, size_t more);
void lmc_buffer_append(lmc_buffer *buffer, const void *data, size_t size);
void lmc_buffer_text(lmc_buffer *buffer, const char *text);
void lmc_buffer_char(lmc_buffer *buffer, char c);
void lmc_buffer_printf(lmc_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void lmc_buffer_vprintf(lmc_buffer *buffer, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
/* Detaches the content: the caller frees it with free(). NULL when failed. */
char *lmc_buffer_take(lmc_buffer *buffer);

static inline lmc_slice lmc_slice_of(const void *data, size_t size) {
    return (lmc_slice){data, size};
}
static inline lmc_slice lmc_text(const char *text) {
    return (lmc_slice){text, text != NULL ? strlen(text) : 0};
}
static inline bool lmc_slice_equal(lmc_slice a, lmc_slice b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}
static inline bool lmc_slice_is(lmc_slice a, const char *text) {
    return lmc_slice_equal(a, lmc_text(text));
}
bool lmc_slice_is_utf8(lmc_slice text);
size_t lmc_utf8_length(const void *text,
                       size_t size);          /* of the first character; 0: not valid */
size_t lmc_slice_code_points(lmc_slice text); /* of valid UTF-8 */
/* For "%.*s": LMC_SLICE_ARGS(slice), never more than INT_MAX. */
#define LMC_SLICE_ARGS(s) \
    (int)((s).size > 2147483647 ? 2147483647 : (s).size), (const char *)(s).data

void lmc_hex(const void *data, size_t size, char *out); /* 2*size digits and a NUL */
lmc_status lmc_random(void *out, size_t size);          /* from the kernel */
void lmc_uuid4(char out[37]);                           /* text form, terminated */

#endif
