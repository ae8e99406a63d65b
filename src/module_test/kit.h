/*
 * kit.h: the conformance kit: one run of a module through everything a server does with it.
 *
 * Each step builds a server without doors (server/rehearsal.h), uses the module in one way,
 * takes the server down again, and says what it found. A step that finds something does not
 * keep the next ones from running. One thread.
 */
#ifndef LMC_MODULE_TEST_KIT_H
#define LMC_MODULE_TEST_KIT_H

#include <stdio.h>

#include "native/native.h"
#include "server/rehearsal.h"

typedef struct lmc_kit {
    FILE *out;
    const char *const *paths; /* the module under test last, what it needs before it */
    size_t path_count;
    const char *config;    /* JSON object */
    const char *factory;   /* of a module in Python; NULL: none is named */
    unsigned rounds;       /* how often it is built and closed */
    int64_t wait_ns;       /* for one call to be completed */
    lmc_native_file *file; /* the module under test; NULL until loaded */
    const char *step;
    unsigned passed, failed;
    bool step_failed;
} lmc_kit;

/* Runs all steps; 0: nothing was found, else 1. */
int lmc_kit_run(lmc_kit *kit);

bool lmc_kit_is_python(const lmc_kit *kit);

/* Something is wrong: what, and what to do about it. */
void lmc_kit_complain(lmc_kit *kit, const char *fix, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Builds a server with the module; NULL and a complaint when that fails. */
lmc_rehearsal *lmc_kit_open(lmc_kit *kit);
void lmc_kit_close(lmc_kit *kit, lmc_rehearsal *rehearsal);

/* steps_load.c */
void lmc_kit_load(lmc_kit *kit);
void lmc_kit_refuse(lmc_kit *kit);
/* steps_life.c */
void lmc_kit_live(lmc_kit *kit);
/* Bytes of this process that are resident. */
int64_t lmc_kit_resident(void);
void lmc_kit_unwind(lmc_kit *kit);
void lmc_kit_doubt_config(lmc_kit *kit);
void lmc_kit_report(lmc_kit *kit);
void lmc_kit_reap(lmc_kit *kit);
/* steps_calls.c */
void lmc_kit_call_methods(lmc_kit *kit);
void lmc_kit_override(lmc_kit *kit);

#endif
