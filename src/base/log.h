/*
 * log.h: the server's own log, on stderr.
 *
 * Line form: `[2025-06-01 12:00:00,123] LMCache INFO: message (file.c:42:lmcache.storage)`,
 * local time, coloured only when stderr is a terminal. Callers format into a bounded queue and
 * never block: one writer thread drains it. When the queue is full the line is dropped and
 * counted, and the count is logged once there is room. Before lmc_log_start() and after
 * lmc_log_stop() lines are written directly. Any thread may log; never from a signal handler.
 *
 * Control characters in a message (below 0x20, and 0x7f) are written as \xNN, so that text
 * from a peer or a plugin cannot forge a line or reach a terminal's controls.
 *
 * Loggers are dotted names; a logger's level is its own, else its nearest ancestor's, else the
 * root's ("lmcache"). LMCACHE_LOG_LEVEL sets the root (DEBUG, INFO, WARNING, ERROR, CRITICAL,
 * any case; unknown means INFO), LMCACHED_LOG_LEVELS single loggers.
 */
#ifndef LMC_BASE_LOG_H
#define LMC_BASE_LOG_H

#include <lmcached/types.h>
#include <stdarg.h>
#include <stdatomic.h>

typedef enum lmc_log_level {
    LMC_LOG_DEBUG = 10,
    LMC_LOG_INFO = 20,
    LMC_LOG_WARNING = 30,
    LMC_LOG_ERROR = 40,
    LMC_LOG_CRITICAL = 50,
} lmc_log_level;

#define LMC_LOG_LINE_MAX 8192 /* bytes of one message; longer ones end in "..." */

lmc_status lmc_log_start(lmc_error *error); /* starts the writer thread */
void lmc_log_stop(void);                    /* writes what is queued, ends the thread */
void lmc_log_flush(void); /* returns when all lines queued so far are written */

/*
 * Sets the levels of LMCACHED_LOG_LEVELS ("lmcache.http.access=WARNING,lmcache.storage=DEBUG")
 * and warns, once per call, about what either variable names and does not exist.
 */
void lmc_log_read_environment(void);

/* Level names as above; false when unknown. */
bool lmc_log_level_parse(const char *name, lmc_log_level *level);
const char *lmc_log_level_name(lmc_log_level level);

bool lmc_log_set_level(const char *logger, lmc_log_level level); /* false: too many loggers */
lmc_log_level lmc_log_level_of(const char *logger);
/* Calls visit for every logger that has logged or was set, in name order. */
void lmc_log_each(void (*visit)(void *arg, const char *logger, lmc_log_level level), void *arg);

uint64_t lmc_log_dropped(void); /* lines dropped so far */

/* Writes whatever the level is; pair it with lmc_log_enabled() where the logger is not a
 * constant, as for text of a plugin. Keeps errno. */
void lmc_log_write(lmc_log_level level, const char *logger, const char *file, int line,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));
bool lmc_log_enabled(lmc_log_level level, const char *logger);

/*
 * For output in bulk that is not ours, such as a plugin's: a message of any length, prefix and
 * text one after the other. It takes at most half of the queue, so that it cannot push out the
 * server's own lines. False: there is no room now, and the caller counts the loss.
 */
bool lmc_log_offer(const char *logger, lmc_log_level level, const char *file, int line,
                   const char *prefix, lmc_slice text);

/*
 * What a call site remembers of its logger's level, so that a line that is off costs one load
 * and one comparison. Stale as soon as any level changes.
 */
typedef struct lmc_log_site {
    _Atomic uint32_t seen; /* generation << 8 | level; 0: never asked */
} lmc_log_site;
extern _Atomic uint32_t lmc_log_generation; /* << 8; starts at 1 << 8 */
bool lmc_log_site_refresh(lmc_log_site *site, lmc_log_level level, const char *logger);

static inline bool lmc_log_site_enabled(lmc_log_site *site, lmc_log_level level,
                                        const char *logger) {
    uint32_t seen = atomic_load_explicit(&site->seen, memory_order_relaxed);
    uint32_t generation = atomic_load_explicit(&lmc_log_generation, memory_order_relaxed);
    if ((seen & ~UINT32_C(0xFF)) == generation)
        return (uint32_t)level >= (seen & 0xFF);
    return lmc_log_site_refresh(site, level, logger);
}

/* Each .c file that logs defines LMC_LOGGER, for example "lmcache.storage", before using these.
 */
#define LMC_LOG(level, ...)                                                           \
    do {                                                                              \
        static lmc_log_site lmc_site_;                                                \
        if (lmc_log_site_enabled(&lmc_site_, (level), LMC_LOGGER))                    \
            lmc_log_write((level), LMC_LOGGER, __FILE_NAME__, __LINE__, __VA_ARGS__); \
    } while (0)
#define LMC_DEBUG(...) LMC_LOG(LMC_LOG_DEBUG, __VA_ARGS__)
#define LMC_INFO(...) LMC_LOG(LMC_LOG_INFO, __VA_ARGS__)
#define LMC_WARNING(...) LMC_LOG(LMC_LOG_WARNING, __VA_ARGS__)
#define LMC_ERROR(...) LMC_LOG(LMC_LOG_ERROR, __VA_ARGS__)
#define LMC_CRITICAL(...) LMC_LOG(LMC_LOG_CRITICAL, __VA_ARGS__)

/*
 * Rate limit for warnings that a peer can provoke: true at most once per second per site; what
 * was suppressed meanwhile is returned through *suppressed (may be NULL). One static
 * lmc_log_limit per call site, zero initialised. Thread safe.
 */
typedef struct lmc_log_limit {
    _Atomic int64_t next_ns;
    _Atomic uint64_t suppressed;
} lmc_log_limit;
bool lmc_log_allow(lmc_log_limit *limit, uint64_t *suppressed);

/* The end of such a line: " (N more not shown)", or nothing when none was suppressed. */
typedef struct lmc_log_more_text {
    char text[48];
} lmc_log_more_text;
lmc_log_more_text lmc_log_more(uint64_t suppressed);

#endif
