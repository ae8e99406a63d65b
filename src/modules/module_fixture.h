/*
 * module_fixture.h: a cache and the built-in modules over it, for *_test.c only.
 */
#ifndef LMC_MODULES_MODULE_FIXTURE_H
#define LMC_MODULES_MODULE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "cache/cache.h"
#include "module/composition.h"
#include "module/context.h"
#include "modules/call_harness.h"
#include "modules/modules.h"

#define FIXTURE_CHUNK 4

typedef struct module_fixture {
    lmc_config config;
    char shm_name[64];
    lmc_context context;
    lmc_composition *composition;
    harness_call *call; /* the last one */
} module_fixture;

static module_fixture fixture;

/* With a pool in shared memory, or without. */
static int fixture_set_up(bool with_pool) {
    size_t count;
    fixture = (module_fixture){0};
    fixture.config.mp.supported_transfer_mode = (char *)(uintptr_t) "auto";
    fixture.config.mp.worker_registration_grace_seconds = 3600;
    snprintf(fixture.shm_name, sizeof fixture.shm_name, "modules_test_%d", (int)getpid());
    lmc_cache_config cache = {.chunk_size = FIXTURE_CHUNK,
                              .l1 = {.capacity = 4 << 20,
                                     .init_size = 4 << 20,
                                     .align = 4096,
                                     .use_lazy = true,
                                     .shm_name = with_pool ? fixture.shm_name : "",
                                     .shm_mode = 0600,
                                     .policy = LMC_EVICT_LRU,
                                     .watermark = 0.8,
                                     .eviction_ratio = 0.2},
                              .read_ttl_ns = 300 * LMC_NS_PER_S,
                              .write_ttl_ns = 600 * LMC_NS_PER_S,
                              .session_ttl_ns = 600 * LMC_NS_PER_S,
                              .session_lease_ns = 30 * LMC_NS_PER_S};
    lmc_cache_observer observer = {0};
    fixture.context = (lmc_context){.config = &fixture.config,
                                    .clock = &lmc_system_clock,
                                    .liveness = lmc_liveness_create(),
                                    .unknown_ids = lmc_unknown_ids_create(16)};
    lmc_error error = LMC_ERROR_INIT;
    if (lmc_cache_create(&cache, &lmc_system_clock, &observer, &fixture.context.cache,
                         &error) != LMC_OK) {
        print_error("%s\n", error.text);
        return 1;
    }
    lmc_composition_options options = {.classes = lmc_built_in_modules(&count),
                                       .context = &fixture.context};
    options.class_count = count;
    options.built_in_count = count;
    fixture.call = aligned_alloc(LMC_EXCHANGE_ALIGN, sizeof(harness_call));
    fixture.call->pieces_at = 0;
    return lmc_composition_create(&options, &fixture.composition, NULL) != LMC_OK;
}

static int fixture_tear_down(void **state) {
    (void)state;
    lmc_composition_close(fixture.composition);
    lmc_composition_destroy(fixture.composition);
    lmc_cache_destroy(fixture.context.cache);
    lmc_liveness_destroy(fixture.context.liveness);
    lmc_unknown_ids_destroy(fixture.context.unknown_ids);
    free(fixture.call);
    return 0;
}

static inline void *fixture_module(const lmc_module_class *class) {
    void *self = lmc_composition_find(fixture.composition, class->name);
    assert_non_null(self);
    return self;
}

/* Runs one request that must be answered; what it returns is valid until the next. */
static inline const void *fixture_ask(const lmc_module_class *class, const char *operation,
                                      const void *request) {
    harness_run(fixture.call, class, fixture_module(class), operation, request, 1);
    assert_true(fixture.call->ended);
    assert_true(fixture.call->answered);
    harness_end(fixture.call);
    return fixture.call->reply;
}

#endif
