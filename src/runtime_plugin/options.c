#include "runtime_plugin/options.h"

#include <stddef.h>

#include "base/error.h"
#include "base/log.h"
#include "config/json_value.h"

#define LMC_LOGGER "lmcache.plugin"
#define PREFIX "plugin."

typedef struct option {
    const char *name;
    size_t offset;
    int64_t low, high; /* both 0: true or false */
    const char *expected;
} option;

#define FIELD(member) offsetof(lmc_plugin_options, member)
#define YES_NO(member) \
    { #member, FIELD(member), 0, 0, "true or false" }

static const option table[] = {
    {"max_restarts", FIELD(max_restarts), 0, 1000000, "a whole number from 0 to 1000000"},
    {"memory_mb", FIELD(memory_mb), 1, 1 << 30, "a whole number of MiB above 0"},
    {"cpu_seconds", FIELD(cpu_seconds), 1, 1 << 30, "a whole number of seconds above 0"},
    {"open_files", FIELD(open_files), 8, 1 << 30, "a whole number from 8"},
    {"nice", FIELD(nice), -40, 39, "a whole number from -40 to 39"},
    {"max_lines_per_second", FIELD(max_lines_per_second), 0, 1 << 30,
     "a whole number; 0 is no limit"},
    YES_NO(ready_fd),
    YES_NO(no_new_privs),
    YES_NO(split_stderr),
    YES_NO(level_prefixes),
};

static const char *const policies[] = {"never", "on-failure", "always"};

const char *lmc_plugin_policy_name(int64_t policy) {
    return policy >= 0 && policy <= LMC_PLUGIN_ALWAYS ? policies[policy] : "never";
}

void lmc_plugin_options_default(lmc_plugin_options *options) {
    *options = (lmc_plugin_options){.restart = LMC_PLUGIN_NEVER,
                                    .max_restarts = 10,
                                    .memory_mb = LMC_PLUGIN_UNSET,
                                    .cpu_seconds = LMC_PLUGIN_UNSET,
                                    .open_files = LMC_PLUGIN_UNSET,
                                    .nice = LMC_PLUGIN_UNSET,
                                    .max_lines_per_second = 10000};
}

/* ---- values; each returns NULL or what was expected ---- */

static const char *take_policy(lmc_plugin_options *options, const lmc_json_value *value) {
    for (int64_t i = 0; i <= LMC_PLUGIN_ALWAYS; i++)
        if (value->kind == LMC_JSON_IS_TEXT && lmc_slice_is(value->text, policies[i])) {
            options->restart = i;
            return NULL;
        }
    return "never, on-failure or always";
}

static const char *take_user(lmc_plugin_options *options, const lmc_json_value *value) {
    if (!lmc_json_filled_text(value) || value->text.size >= sizeof options->user ||
        memchr(value->text.data, '\0', value->text.size) != NULL)
        return "the name of a user";
    memcpy(options->user, value->text.data, value->text.size);
    options->user[value->text.size] = '\0';
    return NULL;
}

static const char *take_row(lmc_plugin_options *options, const option *row,
                            const lmc_json_value *value) {
    int64_t number = 0;
    bool yes_no = row->low == 0 && row->high == 0;
    if (yes_no && value->kind == LMC_JSON_IS_BOOL)
        number = value->truth;
    else if (yes_no || !lmc_json_integer(value, &number) || number < row->low ||
             number > row->high)
        return row->expected;
    memcpy((char *)options + row->offset, &number, sizeof number);
    return NULL;
}

static void take(lmc_plugin_options *options, lmc_slice key, lmc_slice name,
                 const lmc_json_value *value) {
    const char *expected = NULL;
    if (lmc_slice_is(name, "restart")) {
        expected = take_policy(options, value);
    } else if (lmc_slice_is(name, "user")) {
        expected = take_user(options, value);
    } else {
        const option *row = NULL;
        for (size_t i = 0; i < sizeof table / sizeof table[0] && row == NULL; i++)
            if (lmc_slice_is(name, table[i].name))
                row = &table[i];
        if (row == NULL) {
            LMC_WARNING("--runtime-plugin-config: %.*s is not an option of a plugin",
                        LMC_SLICE_ARGS(key));
            return;
        }
        expected = take_row(options, row, value);
    }
    if (expected != NULL)
        LMC_WARNING("--runtime-plugin-config: %.*s must be %s; its default is used",
                    LMC_SLICE_ARGS(key), expected);
}

/* ---- keys ---- */

static lmc_slice rest_of(lmc_slice text, size_t size) {
    return lmc_slice_of((const char *)text.data + size, text.size - size);
}

/* What follows `plugin.<file name>.` in the key; false: it is another's. */
static bool option_of(lmc_slice key, const char *file_name, lmc_slice *name) {
    size_t prefix = strlen(PREFIX), size = strlen(file_name);
    if (key.size <= prefix + size + 1 || memcmp(key.data, PREFIX, prefix) != 0)
        return false;
    const char *text = key.data;
    if (memcmp(text + prefix, file_name, size) != 0 || text[prefix + size] != '.')
        return false;
    *name = rest_of(key, prefix + size + 1);
    return true;
}

static bool read_object(lmc_arena *arena, lmc_slice config, const lmc_json_value **value,
                        lmc_status *status) {
    *status = lmc_json_read(arena, config, value, NULL);
    return *status == LMC_OK && (*value)->kind == LMC_JSON_IS_OBJECT;
}

lmc_status lmc_plugin_options_read(lmc_plugin_options *options, lmc_slice config,
                                   const char *file_name, lmc_error *error) {
    const lmc_json_value *value;
    lmc_status status;
    lmc_slice name;
    lmc_arena arena;
    lmc_plugin_options_default(options);
    lmc_arena_init(&arena, 0);
    if (read_object(&arena, config, &value, &status))
        for (const lmc_json_value *member = value->first; member != NULL; member = member->next)
            if (option_of(member->name, file_name, &name))
                take(options, member->name, name, member);
    lmc_arena_fini(&arena);
    return status == LMC_NO_MEMORY ? lmc_error_set(error, status, "out of memory") : LMC_OK;
}

/* A key that is meant for a plugin file, whichever. */
static bool names_a_file(lmc_slice key) {
    const char *text = key.data;
    if (key.size < strlen(PREFIX) || memcmp(text, PREFIX, strlen(PREFIX)) != 0)
        return false;
    for (size_t i = strlen(PREFIX); i + 4 < key.size; i++)
        if (memcmp(text + i, ".py.", 4) == 0 || memcmp(text + i, ".sh.", 4) == 0)
            return true;
    return false;
}

void lmc_plugin_options_check(lmc_slice config, const char *const *file_names, size_t count) {
    const lmc_json_value *value;
    lmc_status status;
    lmc_slice name;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    if (read_object(&arena, config, &value, &status)) {
        for (const lmc_json_value *member = value->first; member != NULL;
             member = member->next) {
            bool known = !names_a_file(member->name);
            for (size_t i = 0; i < count && !known; i++)
                known = option_of(member->name, file_names[i], &name);
            if (!known)
                LMC_WARNING("--runtime-plugin-config: %.*s: no plugin of this name is started",
                            LMC_SLICE_ARGS(member->name));
        }
    }
    lmc_arena_fini(&arena);
}
