#include "http/quota.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/lock.h"

#define QUOTAS_MAX 4096
#define SALT_CHARACTERS_MAX 128

typedef struct quota {
    char *salt;
    size_t size;
    double limit_gb;
} quota;

struct lmc_http_quotas {
    lmc_lock lock;
    quota *rows; /* sorted by salt */
    size_t count, capacity;
};

lmc_http_quotas *lmc_http_quotas_create(void) {
    lmc_http_quotas *quotas = calloc(1, sizeof *quotas);
    if (quotas != NULL)
        lmc_lock_init(&quotas->lock, LMC_RANK_TRANSPORT, "http.quotas");
    return quotas;
}

void lmc_http_quotas_destroy(lmc_http_quotas *quotas) {
    if (quotas == NULL)
        return;
    for (size_t i = 0; i < quotas->count; i++)
        free(quotas->rows[i].salt);
    free(quotas->rows);
    lmc_lock_fini(&quotas->lock);
    free(quotas);
}

static int compare(const quota *row, lmc_slice salt) {
    size_t shorter = row->size < salt.size ? row->size : salt.size;
    int order = shorter > 0 ? memcmp(row->salt, salt.data, shorter) : 0;
    return order != 0 ? order : (row->size > salt.size) - (row->size < salt.size);
}

/* Where the salt is, or where it belongs. */
static bool find(const lmc_http_quotas *quotas, lmc_slice salt, size_t *at) {
    size_t low = 0, high = quotas->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(&quotas->rows[middle], salt);
        if (order == 0) {
            *at = middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *at = low;
    return false;
}

static lmc_status check_salt(lmc_slice salt, lmc_error *error) {
    if (!lmc_slice_is_utf8(salt))
        return lmc_error_set(error, LMC_INVALID, "cache_salt must be valid UTF-8");
    if (lmc_slice_code_points(salt) > SALT_CHARACTERS_MAX)
        return lmc_error_set(error, LMC_INVALID, "cache_salt must be at most %d characters",
                             SALT_CHARACTERS_MAX);
    for (size_t i = 0; i < salt.size; i++) {
        char c = ((const char *)salt.data)[i];
        if (c == '@' || c == '/' || c == '\\' || c == '\0')
            return lmc_error_set(error, LMC_INVALID,
                                 "cache_salt must not contain '@', '/', '\\' or NUL");
    }
    return LMC_OK;
}

static bool grow(lmc_http_quotas *quotas) {
    if (quotas->count < quotas->capacity)
        return true;
    size_t capacity = quotas->capacity > 0 ? 2 * quotas->capacity : 16;
    quota *rows = realloc(quotas->rows, capacity * sizeof *rows);
    if (rows == NULL)
        return false;
    quotas->rows = rows;
    quotas->capacity = capacity;
    return true;
}

static lmc_status insert(lmc_http_quotas *quotas, size_t at, lmc_slice salt, double limit_gb,
                         lmc_error *error) {
    if (quotas->count == QUOTAS_MAX)
        return lmc_error_set(error, LMC_BUSY, "more than %d quotas", QUOTAS_MAX);
    char *copy = malloc(salt.size + 1);
    if (copy == NULL || !grow(quotas)) {
        free(copy);
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for another quota");
    }
    if (salt.size > 0)
        memcpy(copy, salt.data, salt.size);
    memmove(&quotas->rows[at + 1], &quotas->rows[at],
            (quotas->count - at) * sizeof *quotas->rows);
    quota *row = &quotas->rows[at];
    row->salt = copy;
    row->size = salt.size;
    row->limit_gb = limit_gb;
    quotas->count++;
    return LMC_OK;
}

lmc_status lmc_http_quota_set(lmc_http_quotas *quotas, lmc_slice salt, double limit_gb,
                              lmc_error *error) {
    size_t at;
    lmc_status status = check_salt(salt, error);
    if (status != LMC_OK)
        return status;
    lmc_lock_take(&quotas->lock);
    if (find(quotas, salt, &at))
        quotas->rows[at].limit_gb = limit_gb;
    else
        status = insert(quotas, at, salt, limit_gb, error);
    lmc_lock_drop(&quotas->lock);
    return status;
}

bool lmc_http_quota_get(lmc_http_quotas *quotas, lmc_slice salt, double *limit_gb) {
    size_t at;
    lmc_lock_take(&quotas->lock);
    bool found = find(quotas, salt, &at);
    *limit_gb = found ? quotas->rows[at].limit_gb : 0.0;
    lmc_lock_drop(&quotas->lock);
    return found;
}

bool lmc_http_quota_remove(lmc_http_quotas *quotas, lmc_slice salt) {
    size_t at;
    lmc_lock_take(&quotas->lock);
    bool found = find(quotas, salt, &at);
    if (found) {
        free(quotas->rows[at].salt);
        quotas->count--;
        memmove(&quotas->rows[at], &quotas->rows[at + 1],
                (quotas->count - at) * sizeof *quotas->rows);
    }
    lmc_lock_drop(&quotas->lock);
    return found;
}

void lmc_http_quota_each(lmc_http_quotas *quotas,
                         void (*visit)(void *arg, lmc_slice salt, double limit_gb), void *arg) {
    lmc_lock_take(&quotas->lock);
    for (size_t i = 0; i < quotas->count; i++)
        visit(arg, lmc_slice_of(quotas->rows[i].salt, quotas->rows[i].size),
              quotas->rows[i].limit_gb);
    lmc_lock_drop(&quotas->lock);
}
