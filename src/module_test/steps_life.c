/* What happens to a module between create and close, calls apart. */
#include <string.h>

#include "base/error.h"
#include "config/json_value.h"
#include "module_test/kit.h"

#define ROUNDS 3
#define AN_INSTANCE INT64_C(7310588712203948517)

/* Memory grows at first, and a little always: less than this per round is no leak. */
#define WATCHED_FROM 100u
#define GROWTH_PER_ROUND 512
#define GROWTH_ONCE ((int64_t)1 << 20)

void lmc_kit_live(lmc_kit *kit) {
    int64_t before = 0;
    for (unsigned i = 0; i < kit->rounds && !kit->step_failed; i++) {
        lmc_rehearsal *rehearsal = lmc_kit_open(kit);
        if (rehearsal != NULL)
            lmc_kit_close(kit, rehearsal);
        if (i + 1 == kit->rounds / 2)
            before = lmc_kit_resident();
    }
    unsigned watched = kit->rounds - kit->rounds / 2;
    int64_t grown = lmc_kit_resident() - before;
    if (kit->rounds < WATCHED_FROM || kit->step_failed)
        return;
    fprintf(kit->out, "      %u times; memory grew by %lld KiB in the last %u\n", kit->rounds,
            (long long)(grown / 1024), watched);
    if (grown > GROWTH_ONCE + (int64_t)watched * GROWTH_PER_ROUND)
        lmc_kit_complain(kit, "release in close() what create() took",
                         "%lld bytes more each time that it is built and closed",
                         (long long)(grown / watched));
}

/* ---- a module that fails after all others were built ---- */

static lmc_status fail_to_build(lmc_build *build, void **self, lmc_error *error) {
    (void)build;
    (void)self;
    return lmc_error_set(error, LMC_FAILED, "on purpose");
}

void lmc_kit_unwind(lmc_kit *kit) {
    static const lmc_module_class failing = {.size = sizeof failing,
                                             .flags = LMC_MODULE_DEFERRED,
                                             .name = "KitFailingModule",
                                             .create = fail_to_build};
    lmc_rehearsal_options options = {.paths = kit->paths,
                                     .path_count = kit->path_count,
                                     .config = kit->config,
                                     .factory = kit->factory,
                                     .last = &failing};
    lmc_error error = LMC_ERROR_INIT;
    lmc_rehearsal *rehearsal;
    if (lmc_rehearsal_open(&options, &rehearsal, &error) == LMC_OK) {
        lmc_kit_close(kit, rehearsal);
        lmc_kit_complain(kit, "report this: it is the server's fault", "the start succeeded");
    } else if (strcmp(error.text, "KitFailingModule: on purpose") != 0) {
        lmc_kit_complain(kit, "see the text", "the start failed earlier: %s", error.text);
    }
}

/* ---- configuration ---- */

/* The configuration with one member's value replaced by [[]]; false: it has no such member. */
static bool spoil(const char *config, size_t index, lmc_buffer *out) {
    const lmc_json_value *value = NULL;
    lmc_json_writer writer;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    bool found = false;
    if (lmc_json_read(&arena, lmc_text(config), &value, NULL) == LMC_OK) {
        const lmc_json_value *member = value->first;
        lmc_json_start(&writer, out, LMC_JSON_COMPACT, LMC_JSON_UTF8);
        lmc_json_object_begin(&writer);
        for (size_t i = 0; member != NULL; member = member->next, i++) {
            lmc_json_name_slice(&writer, member->name);
            if (i == index)
                lmc_json_raw(&writer, lmc_text("[[]]"));
            else
                lmc_json_copy(&writer, member, false);
            found |= i == index;
        }
        lmc_json_object_end(&writer);
        found = lmc_json_finish(&writer) == LMC_OK && found;
    }
    lmc_arena_fini(&arena);
    return found;
}

/* With this configuration the start may fail, but then it says why. */
static void try_config(lmc_kit *kit, const char *config) {
    lmc_rehearsal_options options = {.paths = kit->paths,
                                     .path_count = kit->path_count,
                                     .config = config,
                                     .factory = kit->factory};
    lmc_error error = LMC_ERROR_INIT;
    lmc_rehearsal *rehearsal;
    lmc_status status = lmc_rehearsal_open(&options, &rehearsal, &error);
    if (status == LMC_OK)
        lmc_kit_close(kit, rehearsal);
    else if (strstr(error.text, lmc_status_name(status)) != NULL &&
             strlen(error.text) < strlen(lmc_status_name(status)) + 70)
        lmc_kit_complain(kit, "say what is wrong: lmc_error_set(error, ...)",
                         "create failed without a text for %s", config);
}

void lmc_kit_doubt_config(lmc_kit *kit) {
    lmc_buffer config = LMC_BUFFER_INIT;
    for (size_t i = 0; spoil(kit->config, i, &config); i++) {
        try_config(kit, config.data);
        lmc_buffer_clear(&config);
    }
    lmc_buffer_fini(&config);
    try_config(kit, "{\"an option that nobody has\":[1,{\"a\":null}]}");
}

/* ---- status ---- */

/* The text with which a member of the status begins; NULL: there is none. */
static const char *find_errors(const lmc_kit *kit, const char *status) {
    const char *errors = strstr(status, "\"status_errors\":{");
    for (size_t i = 0; errors != NULL && i < kit->file->class_count; i++)
        if (strstr(errors, kit->file->classes[i].name) != NULL)
            return errors;
    return NULL;
}

void lmc_kit_report(lmc_kit *kit) {
    lmc_rehearsal *rehearsal = lmc_kit_open(kit);
    lmc_buffer status = LMC_BUFFER_INIT;
    const lmc_json_value *value = NULL;
    lmc_arena arena;
    if (rehearsal == NULL)
        return;
    lmc_arena_init(&arena, 0);
    if (lmc_rehearsal_status(rehearsal, &status) != LMC_OK ||
        lmc_json_read(&arena, lmc_slice_of(status.data, status.size), &value, NULL) != LMC_OK)
        lmc_kit_complain(kit, "report this: it is the server's fault", "/status is not JSON");
    else if (find_errors(kit, status.data) != NULL)
        lmc_kit_complain(kit,
                         "return LMC_OK within a second, and end every object and list begun",
                         "%s", find_errors(kit, status.data));
    static const char *const core[] = {"engine_type", "chunk_size", "storage_manager"};
    for (size_t i = 0; value != NULL && i < sizeof core / sizeof core[0]; i++) {
        const lmc_json_value *member = lmc_json_get(value, core[i]);
        bool is_core =
            member != NULL && (i != 0 || lmc_slice_is(member->text, "MPCacheServer"));
        if (!is_core)
            lmc_kit_complain(kit, "put what you report under one name of your own",
                             "the status replaces the server's '%s'", core[i]);
    }
    lmc_arena_fini(&arena);
    lmc_buffer_fini(&status);
    lmc_kit_close(kit, rehearsal);
}

/* ---- liveness ---- */

void lmc_kit_reap(lmc_kit *kit) {
    lmc_rehearsal *rehearsal = lmc_kit_open(kit);
    if (rehearsal == NULL)
        return;
    lmc_rehearsal_touch(rehearsal, AN_INSTANCE);
    lmc_rehearsal_touch(rehearsal, -1);
    int64_t tracked = lmc_rehearsal_tracked(rehearsal);
    if (tracked < 0)
        lmc_kit_complain(kit, "count the instances that the module keeps state for",
                         "tracked_instance_count gave %lld", (long long)tracked);
    for (int i = 0; i < ROUNDS; i++)
        lmc_rehearsal_reap(rehearsal, LMC_NS_PER_S, 2 * LMC_NS_PER_S);
    lmc_rehearsal_reap(rehearsal, INT64_MAX, INT64_MAX);
    lmc_kit_close(kit, rehearsal);
}
