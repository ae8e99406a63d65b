/*
 * rehearsal.h: a server without doors, for looking at modules: a small cache, the built-in
 * modules, those from the given files, and pools, but no socket and no HTTP port.
 *
 * For check-module and the conformance kit. One at a time, on one thread, which is the main
 * thread and the request loop in one.
 */
#ifndef LMC_SERVER_REHEARSAL_H
#define LMC_SERVER_REHEARSAL_H

#include <lmcached/module.h>

#include "base/bytes.h"
#include "module/composition.h"

typedef struct lmc_rehearsal lmc_rehearsal;

typedef struct lmc_rehearsal_options {
    const char *const *paths; /* of modules */
    size_t path_count;
    const char *config;  /* JSON object, for the last of them; NULL: "{}" */
    const char *factory; /* its function that makes modules; NULL: none is named */
    /* A class from inside, built after all others; NULL: none. */
    const lmc_module_class *last;
} lmc_rehearsal_options;

/* As the server starts: load, build, register, pools. On failure all of it was undone. */
lmc_status lmc_rehearsal_open(const lmc_rehearsal_options *options, lmc_rehearsal **rehearsal,
                              lmc_error *error);
/* As the server stops. False: some handler has not returned, and nothing was closed. A close
 * that hangs ends the process with 1. Accepts NULL. */
bool lmc_rehearsal_close(lmc_rehearsal *rehearsal);

/* What became of a call. */
typedef struct lmc_rehearsed_call {
    lmc_status status;    /* LMC_TIMEOUT: not completed; LMC_OK: a reply was encoded */
    bool negative;        /* the reply is the operation's negative, or there is none */
    lmc_buffer text;      /* of a negative envelope reply: its error */
    uint64_t reply_bytes; /* on the ZMQ wire */
} lmc_rehearsed_call;

/*
 * Makes `count` calls at once, of one operation with one request struct, from different
 * connections, and waits for them no longer than wait_ns. results[i] is the caller's to fini.
 * The request must stay as it is until close. LMC_NOT_FOUND: nobody handles it.
 */
lmc_status lmc_rehearsal_call(lmc_rehearsal *rehearsal, const char *operation,
                              const void *request, size_t count, int64_t wait_ns,
                              lmc_rehearsed_call *results);
void lmc_rehearsed_call_fini(lmc_rehearsed_call *call);

/* Every module that was built, in order. */
void lmc_rehearsal_each(const lmc_rehearsal *rehearsal,
                        void (*visit)(void *arg, const lmc_module_row *row), void *arg);
/* Calls that were completed a second time so far. */
uint64_t lmc_rehearsal_doubles(const lmc_rehearsal *rehearsal);
/* Appends the text of /status; LMC_NO_MEMORY. */
lmc_status lmc_rehearsal_status(lmc_rehearsal *rehearsal, lmc_buffer *out);
/* An instance was alive; one round of the reaper. */
void lmc_rehearsal_touch(lmc_rehearsal *rehearsal, int64_t instance_id);
void lmc_rehearsal_reap(lmc_rehearsal *rehearsal, int64_t timeout_ns, int64_t grace_ns);
int64_t lmc_rehearsal_tracked(lmc_rehearsal *rehearsal);
/* Objects that somebody holds open. */
uint64_t lmc_rehearsal_open_objects(lmc_rehearsal *rehearsal);

#endif
