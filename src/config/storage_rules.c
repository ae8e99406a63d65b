/* The L1 list from the legacy flags, and the rules both forms share (cli-config.md 2.3). */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/option_value.h"
#include "config/parsing.h"
#include "config/storage_rules.h"

#define GIB (INT64_C(1) << 30)
#define HUGE_PAGE (INT64_C(2) << 20)

static lmc_status reject(lmc_parsing *parsing, const char *text) {
    return lmc_error_set(parsing->error, LMC_INVALID, "%s", text);
}

bool lmc_gib_to_bytes(double gib, int64_t *bytes) {
    double exact = gib * (double)GIB;
    if (!isfinite(exact) || exact < 1 || exact >= 9.2e18)
        return false;
    *bytes = (int64_t)exact;
    return true;
}

/* Cuts blanks at both ends, in place. */
static void trim(char *text) {
    static const char blanks[] = " \t\n\r\f\v";
    size_t lead = strspn(text, blanks), size = strlen(text + lead);
    memmove(text, text + lead, size + 1);
    while (size > 0 && strchr(blanks, text[size - 1]) != NULL)
        text[--size] = '\0';
}

static bool read_free_hugepages(const char *path, int64_t *pages) {
    char line[64] = "";
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    char *end = NULL;
    *pages = strtoll(line, &end, 10);
    return read && end != line;
}

static lmc_status check_hugepages(lmc_parsing *parsing, const lmc_l1_memory_config *memory) {
    const char *path = parsing->world->free_hugepages_path;
    int64_t available = 0;
    int64_t needed =
        memory->size_in_bytes / HUGE_PAGE + (memory->size_in_bytes % HUGE_PAGE != 0);
    if (!read_free_hugepages(path, &available))
        return lmc_parsing_notice(
            parsing, LMC_LOG_WARNING,
            "cannot read %s; the number of free 2 MiB pages is not checked", path);
    if (available >= needed)
        return LMC_OK;
    return lmc_error_set(parsing->error, LMC_INVALID,
                         "Insufficient hugepages: %" PRId64 " free, %" PRId64
                         " required for a %" PRId64
                         " byte L1 buffer. Grow the 2 MiB hugepage pool (e.g. sysctl "
                         "vm.nr_hugepages=%" PRId64 ").",
                         available, needed, memory->size_in_bytes, needed);
}

lmc_status lmc_check_memory(lmc_parsing *parsing, lmc_l1_memory_config *memory) {
    bool shared = memory->shm_name[0] != '\0';
    if (memory->use_hugepages && memory->use_lazy) {
        lmc_status status = lmc_parsing_notice(
            parsing, LMC_LOG_INFO, "hugepages are allocated at start: lazy supply is off");
        if (status != LMC_OK)
            return status;
        memory->use_lazy = false;
    }
    if (memory->devdax_path != NULL && memory->use_lazy)
        return reject(parsing, "l1-devdax-path requires lazy allocation to be disabled. Please "
                               "set --no-l1-use-lazy.");
    if (memory->devdax_path != NULL && shared)
        return reject(
            parsing, "l1-devdax-path requires SHM to be disabled. Please set --shm-name \"\".");
    if (memory->use_hugepages && shared)
        return reject(parsing,
                      "l1-use-hugepages is incompatible with shared memory. Please set "
                      "--shm-name \"\" to disable SHM when enabling hugepages.");
    return memory->use_hugepages ? check_hugepages(parsing, memory) : LMC_OK;
}

int64_t lmc_initial_size(double gib, int64_t size) {
    int64_t bytes = 0;
    return lmc_gib_to_bytes(gib, &bytes) && bytes < size ? bytes : gib > 0 ? size : 0;
}

static char *copy_or_null(const char *text, bool *failed) {
    char *copy = text != NULL ? strdup(text) : NULL;
    *failed |= text != NULL && copy == NULL;
    return copy;
}

lmc_status lmc_copy_eviction(const lmc_eviction_config *from, lmc_eviction_config *to) {
    bool failed = false;
    char *policy = copy_or_null(from->eviction_policy, &failed);
    char *old = to->eviction_policy;
    if (failed)
        return LMC_NO_MEMORY;
    *to = *from;
    to->eviction_policy = policy;
    free(old);
    return LMC_OK;
}

lmc_l1_manager_config *lmc_add_l1_manager(lmc_storage_config *storage) {
    size_t count = storage->l1_manager_count;
    lmc_l1_manager_config *grown = realloc(storage->l1_managers, (count + 1) * sizeof *grown);
    if (grown == NULL)
        return NULL;
    storage->l1_managers = grown;
    grown[count] = (lmc_l1_manager_config){0};
    storage->l1_manager_count++;
    return &grown[count];
}

static lmc_status fill_legacy(lmc_config *config, lmc_l1_manager_config *l1) {
    const lmc_l1_flags *flags = &config->storage_manager.flags;
    lmc_l1_memory_config *memory = &l1->memory_config;
    bool failed = false;
    memory->use_lazy = flags->use_lazy;
    memory->init_size_in_bytes =
        lmc_initial_size((double)flags->init_size_gb, memory->size_in_bytes);
    memory->align_bytes = flags->align_bytes;
    memory->shm_name = copy_or_null(config->mp.shm_name, &failed);
    memory->use_hugepages = flags->use_hugepages;
    memory->devdax_path = copy_or_null(flags->devdax_path, &failed);
    l1->gds_l1_config.file_location = copy_or_null(flags->gds_path, &failed);
    l1->gds_l1_config.backend = copy_or_null(flags->gds_backend, &failed);
    l1->gds_l1_config.use_direct_io = flags->gds_use_direct_io;
    l1->write_ttl_seconds = flags->write_ttl_seconds;
    l1->read_ttl_seconds = flags->read_ttl_seconds;
    l1->tag = copy_or_null("_default", &failed);
    if (failed)
        return LMC_NO_MEMORY;
    return lmc_copy_eviction(&config->storage_manager.eviction_config, &l1->eviction);
}

static lmc_status resolve_legacy(lmc_parsing *parsing) {
    lmc_storage_config *storage = &parsing->config->storage_manager;
    lmc_l1_flags *flags = &storage->flags;
    int64_t size = 0;
    if (isnan(flags->size_gb) || storage->eviction_config.eviction_policy == NULL)
        return reject(parsing,
                      "Legacy L1 configuration requires --l1-size-gb and --eviction-policy");
    if (flags->gds_path != NULL && flags->devdax_path != NULL)
        return reject(parsing, "gds-l1-path cannot be used with l1-devdax-path");
    if (!lmc_gib_to_bytes(flags->size_gb, &size))
        return reject(parsing, "--l1-size-gb is more than any machine has");
    if (size < flags->align_bytes)
        return reject(parsing, "--l1-size-gb must provide at least --l1-align-bytes bytes");
    lmc_l1_manager_config *l1 = lmc_add_l1_manager(storage);
    if (l1 == NULL)
        return LMC_NO_MEMORY;
    l1->memory_config.size_in_bytes = size;
    lmc_status status = fill_legacy(parsing->config, l1);
    return status != LMC_OK ? status : lmc_check_memory(parsing, &l1->memory_config);
}

lmc_status lmc_resolve_storage(lmc_parsing *parsing) {
    lmc_l1_flags *flags = &parsing->config->storage_manager.flags;
    if (flags->devdax_path != NULL) {
        trim(flags->devdax_path);
        if (flags->devdax_path[0] == '\0') {
            free(flags->devdax_path);
            flags->devdax_path = NULL;
        }
    }
    if (flags->managers.count == 0)
        return resolve_legacy(parsing);
    const char *beside = lmc_parsing_given(parsing, "--l1-size-gb") ? "--l1-size-gb"
                         : flags->devdax_path != NULL               ? "--l1-devdax-path"
                         : flags->gds_path != NULL                  ? "--gds-l1-path"
                                                                    : NULL;
    if (beside != NULL) {
        lmc_status status = lmc_parsing_notice(parsing, LMC_LOG_WARNING,
                                               "%s was given beside --l1-manager", beside);
        if (status != LMC_OK)
            return status;
        return reject(parsing, "Use either --l1-manager or legacy L1 flags");
    }
    return lmc_parse_l1_managers(parsing);
}
