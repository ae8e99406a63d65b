/* Levels of loggers: a small sorted table, and what call sites remember of it. */
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/lock.h"

#define LMC_LOGGER "lmcache"
#define LOGGERS_MAX 256
#define NAME_MAX_BYTES 96
#define ROOT "lmcache"
#define INHERITED 0

typedef struct logger {
    char name[NAME_MAX_BYTES];
    int level; /* or INHERITED */
} logger;

static lmc_lock lock = {
    .mutex = PTHREAD_MUTEX_INITIALIZER, .name = "log levels", .rank = LMC_RANK_LOG};
static logger loggers[LOGGERS_MAX]; /* in name order; guarded by lock */
static size_t logger_count;
static int root_level = INHERITED; /* until the environment was read */

_Atomic uint32_t lmc_log_generation = UINT32_C(1) << 8;

static const struct {
    const char *name;
    lmc_log_level level;
} names[] = {
    {"DEBUG", LMC_LOG_DEBUG}, {"INFO", LMC_LOG_INFO},         {"WARNING", LMC_LOG_WARNING},
    {"ERROR", LMC_LOG_ERROR}, {"CRITICAL", LMC_LOG_CRITICAL},
};

bool lmc_log_level_parse(const char *name, lmc_log_level *level) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (name != NULL && strcasecmp(name, names[i].name) == 0) {
            *level = names[i].level;
            return true;
        }
    }
    return false;
}

const char *lmc_log_level_name(lmc_log_level level) {
    const char *name = names[0].name;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (level >= names[i].level)
            name = names[i].name;
    }
    return name;
}

static int root(void) {
    if (root_level == INHERITED) {
        lmc_log_level level = LMC_LOG_INFO;
        lmc_log_level_parse(getenv("LMCACHE_LOG_LEVEL"), &level);
        root_level = (int)level;
    }
    return root_level;
}

/* Finds the first `length` bytes of name; *at is where it stands or belongs. */
static bool find(const char *name, size_t length, size_t *at) {
    size_t low = 0, high = logger_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strncmp(loggers[middle].name, name, length);
        if (order == 0 && loggers[middle].name[length] != '\0')
            order = 1;
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

static logger *find_or_add(const char *name) {
    size_t at, length = strlen(name);
    if (length >= NAME_MAX_BYTES)
        return NULL;
    if (find(name, length, &at))
        return &loggers[at];
    if (logger_count == LOGGERS_MAX)
        return NULL;
    memmove(&loggers[at + 1], &loggers[at], (logger_count - at) * sizeof loggers[0]);
    logger_count++;
    loggers[at].level = INHERITED;
    memcpy(loggers[at].name, name, length + 1);
    return &loggers[at];
}

static int effective(const char *name) {
    size_t length = strlen(name);
    while (length > 0) {
        size_t at;
        if (length < NAME_MAX_BYTES && find(name, length, &at) &&
            loggers[at].level != INHERITED)
            return loggers[at].level;
        while (length > 0 && name[--length] != '.')
            ;
    }
    return root();
}

bool lmc_log_set_level(const char *name, lmc_log_level level) {
    lmc_lock_take(&lock);
    logger *found = find_or_add(name);
    if (found != NULL)
        found->level = (int)level;
    bool is_root = strcmp(name, ROOT) == 0;
    if (is_root)
        root_level = (int)level;
    atomic_fetch_add(&lmc_log_generation, UINT32_C(1) << 8);
    lmc_lock_drop(&lock);
    return found != NULL || is_root;
}

lmc_log_level lmc_log_level_of(const char *name) {
    lmc_lock_take(&lock);
    int level = effective(name);
    lmc_lock_drop(&lock);
    return (lmc_log_level)level;
}

bool lmc_log_enabled(lmc_log_level level, const char *name) {
    lmc_lock_take(&lock);
    find_or_add(name);
    int limit = effective(name);
    lmc_lock_drop(&lock);
    return (int)level >= limit;
}

bool lmc_log_site_refresh(lmc_log_site *site, lmc_log_level level, const char *name) {
    uint32_t generation = atomic_load(&lmc_log_generation);
    lmc_lock_take(&lock);
    find_or_add(name);
    int limit = effective(name);
    lmc_lock_drop(&lock);
    /* A level set meanwhile has moved the generation on, so the next call asks again. */
    atomic_store_explicit(&site->seen, generation | (uint32_t)limit, memory_order_relaxed);
    return (int)level >= limit;
}

void lmc_log_each(void (*visit)(void *arg, const char *logger, lmc_log_level level),
                  void *arg) {
    lmc_lock_take(&lock);
    size_t count = logger_count;
    logger *copy = malloc((count + 1) * sizeof *copy);
    for (size_t i = 0; copy != NULL && i < count; i++) {
        copy[i] = loggers[i];
        copy[i].level = effective(loggers[i].name);
    }
    lmc_lock_drop(&lock);
    for (size_t i = 0; copy != NULL && i < count; i++)
        visit(arg, copy[i].name, (lmc_log_level)copy[i].level);
    free(copy);
}

bool lmc_log_allow(lmc_log_limit *limit, uint64_t *suppressed) {
    int64_t now = lmc_now(&lmc_system_clock);
    int64_t next = atomic_load_explicit(&limit->next_ns, memory_order_relaxed);
    if (now < next ||
        !atomic_compare_exchange_strong(&limit->next_ns, &next, now + LMC_NS_PER_S)) {
        atomic_fetch_add_explicit(&limit->suppressed, 1, memory_order_relaxed);
        return false;
    }
    uint64_t missed = atomic_exchange(&limit->suppressed, 0);
    if (suppressed != NULL)
        *suppressed = missed;
    return true;
}

lmc_log_more_text lmc_log_more(uint64_t suppressed) {
    lmc_log_more_text more = {{0}};
    if (suppressed > 0)
        snprintf(more.text, sizeof more.text, " (%llu more not shown)",
                 (unsigned long long)suppressed);
    return more;
}

/* One "logger=LEVEL" of LMCACHED_LOG_LEVELS; blanks around the parts are none of them. */
static bool apply(char *item) {
    lmc_log_level level;
    char *value = strchr(item, '=');
    if (value == NULL)
        return false;
    *value++ = '\0';
    item += strspn(item, " \t");
    item[strcspn(item, " \t")] = '\0';
    value += strspn(value, " \t");
    value[strcspn(value, " \t")] = '\0';
    return item[0] != '\0' && lmc_log_level_parse(value, &level) &&
           lmc_log_set_level(item, level);
}

static void apply_all(const char *list) {
    while (*list != '\0') {
        char item[2 * NAME_MAX_BYTES];
        size_t length = strcspn(list, ",");
        int shown = length < sizeof item ? (int)length : (int)sizeof item - 1;
        snprintf(item, sizeof item, "%.*s", shown, list);
        if (item[strspn(item, " \t")] != '\0' && !apply(item))
            LMC_WARNING("LMCACHED_LOG_LEVELS: %.*s is not used: it is a list of logger=LEVEL "
                        "such as lmcache.http.access=WARNING, separated by commas",
                        shown, list);
        list += length + (list[length] == ',');
    }
}

void lmc_log_read_environment(void) {
    lmc_log_level level;
    const char *name = getenv("LMCACHE_LOG_LEVEL");
    const char *list = getenv("LMCACHED_LOG_LEVELS");
    if (name != NULL && name[0] != '\0' && !lmc_log_level_parse(name, &level))
        LMC_WARNING("LMCACHE_LOG_LEVEL=%s is no level, INFO is used; there are DEBUG, INFO, "
                    "WARNING, ERROR and CRITICAL",
                    name);
    if (list != NULL)
        apply_all(list);
}
