/* Text of a double with the fewest digits that read back as the same value. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_writer.h"

#define DIGITS_MAX 17
/* Fixed notation, as in Python, for decimal points from 0.0001 up to 16 digits. */
#define LOWEST_FIXED (-3)
#define HIGHEST_FIXED 16

typedef struct decimal {
    char digits[DIGITS_MAX + 1];
    int count;
    int point; /* value = 0.DIGITS * 10^point */
} decimal;

static decimal parse(const char *scientific) {
    decimal d = {.count = 0};
    const char *at = scientific;
    for (; *at != '\0' && *at != 'e'; at++) {
        if (*at >= '0' && *at <= '9' && d.count < DIGITS_MAX)
            d.digits[d.count++] = *at;
    }
    d.point = (*at == 'e' ? (int)strtol(at + 1, NULL, 10) : 0) + 1;
    d.digits[d.count] = '\0';
    return d;
}

static void drop_trailing_zeros(decimal *d) {
    while (d->count > 1 && d->digits[d->count - 1] == '0')
        d->count--;
    d->digits[d->count] = '\0';
}

static double value_of(const decimal *d) {
    char text[DIGITS_MAX + 16];
    snprintf(text, sizeof text, "%se%d", d->digits, d->point - d->count);
    return strtod(text, NULL);
}

/* Adds one unit in the last digit. */
static void step_up(decimal *d) {
    int i = d->count - 1;
    while (i >= 0 && d->digits[i] == '9')
        d->digits[i--] = '0';
    if (i >= 0) {
        d->digits[i]++;
        return;
    }
    memset(d->digits, '0', (size_t)d->count);
    d->digits[0] = '1';
    d->point++;
}

static bool try_digits(double magnitude, int count, decimal *d) {
    char text[40];
    snprintf(text, sizeof text, "%.*e", count - 1, magnitude);
    *d = parse(text);
    if (value_of(d) == magnitude)
        return true;
    /* Below a power of two the doubles lie closer than above it, so the nearest decimal may
     * miss where its upper neighbour does not. */
    step_up(d);
    return value_of(d) == magnitude;
}

static decimal shortest(double magnitude) {
    decimal d = {.digits = "0", .count = 1, .point = 1};
    if (magnitude == 0)
        return d;
    /* Up to 15 digits survive a normal double, so shorter forms show as trailing zeros there.
     */
    int count = magnitude < DBL_MIN ? 1 : DBL_DIG;
    while (!try_digits(magnitude, count, &d) && count < DIGITS_MAX)
        count++;
    drop_trailing_zeros(&d);
    return d;
}

static size_t put_scientific(const decimal *d, char *out, size_t room) {
    int exponent = d->point - 1;
    int n = snprintf(out, room, "%.1s%s%se%c%02d", d->digits, d->count > 1 ? "." : "",
                     d->digits + 1, exponent < 0 ? '-' : '+', abs(exponent));
    return (size_t)n;
}

static size_t put_fixed(const decimal *d, char *out, size_t room) {
    static const char zeros[] = "0000000000000000";
    int n;
    if (d->point <= 0)
        n = snprintf(out, room, "0.%.*s%s", -d->point, zeros, d->digits);
    else if (d->count <= d->point)
        n = snprintf(out, room, "%s%.*s.0", d->digits, d->point - d->count, zeros);
    else
        n = snprintf(out, room, "%.*s.%s", d->point, d->digits, d->digits + d->point);
    return (size_t)n;
}

size_t lmc_real_text(double value, char out[LMC_REAL_TEXT_MAX]) {
    if (isnan(value))
        return (size_t)snprintf(out, LMC_REAL_TEXT_MAX, "nan");
    size_t used = 0;
    if (signbit(value))
        out[used++] = '-';
    char *at = out + used;
    size_t room = LMC_REAL_TEXT_MAX - used;
    if (isinf(value))
        return used + (size_t)snprintf(at, room, "inf");
    decimal d = shortest(fabs(value));
    if (d.point >= LOWEST_FIXED && d.point <= HIGHEST_FIXED)
        return used + put_fixed(&d, at, room);
    return used + put_scientific(&d, at, room);
}
