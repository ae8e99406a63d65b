#include "runtime_plugin/environment.h"

#include <stdlib.h>

#define OWN_MAX 16
#define MAIN_CONFIG "LMCACHE_RUNTIME_PLUGIN_CONFIG"
#define LEGACY_CONFIG "LMCACHE_PLUGIN_CONFIG"
#define CONFIG_FILE "LMCACHE_RUNTIME_PLUGIN_CONFIG_FILE"

void lmc_plugin_environment_fini(lmc_plugin_environment *environment) {
    for (size_t i = 0; i < environment->count; i++)
        free(environment->strings[i]);
    free(environment->strings);
    *environment = (lmc_plugin_environment){0};
}

size_t lmc_environment_size(char *const *strings) {
    size_t size = sizeof *strings;
    for (; *strings != NULL; strings++)
        size += strlen(*strings) + 1 + sizeof *strings;
    return size;
}

static size_t string_size(const char *name, const char *value) {
    return strlen(name) + 1 + strlen(value) + 1;
}

void lmc_plugin_config_copies(lmc_plugin_settings *settings, size_t total_limit,
                              size_t inherited) {
    size_t one = string_size(MAIN_CONFIG, settings->config);
    bool fits = one <= LMC_ENVIRONMENT_STRING_MAX;
    settings->copy_main = fits && inherited + one <= total_limit;
    settings->copy_legacy = settings->copy_main && inherited + 2 * one <= total_limit;
}

/* ---- the list ---- */

static bool same_name(const char *a, const char *b) {
    size_t size = strcspn(a, "=");
    return strncmp(a, b, size) == 0 && (b[size] == '=' || b[size] == '\0');
}

static void drop_at(lmc_plugin_environment *environment, size_t at) {
    free(environment->strings[at]);
    environment->count--;
    memmove(&environment->strings[at], &environment->strings[at + 1],
            (environment->count - at + 1) * sizeof *environment->strings);
}

static void drop(lmc_plugin_environment *environment, const char *name) {
    for (size_t i = environment->count; i-- > 0;)
        if (same_name(environment->strings[i], name))
            drop_at(environment, i);
}

/* There is room; takes the string over. False: it is NULL. */
static bool put(lmc_plugin_environment *environment, char *string) {
    if (string == NULL)
        return false;
    drop(environment, string);
    environment->strings[environment->count++] = string;
    environment->strings[environment->count] = NULL;
    return true;
}

/* value NULL: the name must not be there. */
static bool set(lmc_plugin_environment *environment, const char *name, const char *value) {
    lmc_buffer string = LMC_BUFFER_INIT;
    if (value == NULL) {
        drop(environment, name);
        return true;
    }
    lmc_buffer_text(&string, name);
    lmc_buffer_char(&string, '=');
    lmc_buffer_text(&string, value);
    return put(environment, lmc_buffer_take(&string));
}

static bool set_number(lmc_plugin_environment *environment, const char *name, int64_t value) {
    lmc_buffer string = LMC_BUFFER_INIT;
    lmc_buffer_printf(&string, "%s=%lld", name, (long long)value);
    return put(environment, lmc_buffer_take(&string));
}

static bool set_own(lmc_plugin_environment *e, const lmc_plugin_settings *s, int ready_fd) {
    bool fine = set(e, MAIN_CONFIG, s->copy_main ? s->config : NULL) &&
                set(e, LEGACY_CONFIG, s->copy_legacy ? s->config : NULL) &&
                set(e, CONFIG_FILE, s->config_file) &&
                set(e, "LMCACHE_RUNTIME_PLUGIN_ROLE", s->role) &&
                set(e, "LMCACHE_PLUGIN_ROLE", s->role) &&
                set_number(e, "LMCACHE_RUNTIME_PLUGIN_WORKER_COUNT", s->worker_count) &&
                set_number(e, "LMCACHE_PLUGIN_WORKER_COUNT", s->worker_count) &&
                set_number(e, "LMCACHE_RUNTIME_PLUGIN_WORKER_ID", s->worker_id) &&
                set_number(e, "LMCACHE_PLUGIN_WORKER_ID", s->worker_id) &&
                set(e, "PYTHONUNBUFFERED", "1") && set(e, LMC_PLUGIN_MARK, s->mark) &&
                set(e, LMC_PLUGIN_READY_FD, NULL);
    if (fine && ready_fd >= 0)
        fine = set_number(e, LMC_PLUGIN_READY_FD, ready_fd);
    return fine;
}

static size_t count_of(char *const *strings) {
    size_t count = 0;
    while (strings != NULL && strings[count] != NULL)
        count++;
    return count;
}

lmc_status lmc_plugin_environment_build(lmc_plugin_environment *environment,
                                        char *const *inherited,
                                        const lmc_plugin_settings *settings,
                                        char *const *assignments, int ready_fd) {
    size_t room = count_of(inherited) + count_of(assignments) + OWN_MAX + 1;
    *environment = (lmc_plugin_environment){.strings = calloc(room, sizeof(char *))};
    bool fine = environment->strings != NULL;
    for (size_t i = 0; fine && inherited[i] != NULL; i++) {
        fine = (environment->strings[i] = strdup(inherited[i])) != NULL;
        environment->count += fine;
    }
    fine = fine && set_own(environment, settings, ready_fd);
    for (size_t i = 0; fine && assignments != NULL && assignments[i] != NULL; i++)
        fine = put(environment, strdup(assignments[i]));
    if (!fine)
        lmc_plugin_environment_fini(environment);
    return fine ? LMC_OK : LMC_NO_MEMORY;
}
