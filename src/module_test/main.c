/*
 * lmcached-module-test: the conformance kit for authors of server modules.
 *
 * Exit status: 0 every step passed, 1 some step found something, 2 wrong usage.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "config/json_value.h"
#include "config/python_text.h"
#include "module_test/kit.h"

#define PATHS_MAX 64
#define WAIT_NS (5 * LMC_NS_PER_S)

static const char usage[] =
    "usage: lmcached-module-test [-h] [--config JSON] [--factory NAME] [--times N]\n"
    "                            [--with OTHER.so]... MODULE\n";
static const char help[] =
    "\n"
    "Runs a server module through load, refuse, build, unwind, calls, reap, status and close, "
    "as\n"
    "a server would, and says what is wrong and how to mend it.\n"
    "\n"
    "  --config JSON    its configuration ({})\n"
    "  --factory NAME   its function that makes modules (in Python)\n"
    "  --times N        how often it is built and closed (3); from 100 on its memory is "
    "watched\n"
    "  --with OTHER.so  another module that it depends on\n"
    "\n"
    "A dotted path is a module in Python.\n";

static bool complain(const char *what, const char *word) {
    fprintf(stderr, "%slmcached-module-test: error: %s%s\n", usage, what, word);
    return false;
}

static bool read_rounds(lmc_kit *kit, const char *word) {
    int64_t rounds = 0;
    bool fine = lmc_read_int(word, &rounds) && rounds > 0 && rounds <= INT32_MAX;
    kit->rounds = fine ? (unsigned)rounds : 0;
    return fine || complain("argument --times: expected a whole number above 0, not ", word);
}

static bool take_option(lmc_kit *kit, const char **paths, const char *name, const char *value) {
    static const char *const names[] = {"--config", "--factory", "--times", "--with"};
    size_t which = 0;
    while (which < 4 && strcmp(name, names[which]) != 0)
        which++;
    if (which == 4)
        return complain("unrecognized arguments: ", name);
    if (value == NULL)
        return complain("expected one argument after ", name);
    if (which == 2)
        return read_rounds(kit, value);
    if (which == 0 && !lmc_json_is_object_text(value))
        return complain("argument --config: not a JSON object: ", value);
    if (which == 3 && kit->path_count == PATHS_MAX - 1)
        return complain("too many of ", name);
    if (which == 3)
        paths[kit->path_count++] = value;
    else
        *(which == 0 ? &kit->config : &kit->factory) = value;
    return true;
}

static bool parse(lmc_kit *kit, const char **paths, int count, char **words) {
    const char *module = NULL;
    for (int i = 1; i < count; i++) {
        if (words[i][0] == '-') {
            if (!take_option(kit, paths, words[i], i + 1 < count ? words[i + 1] : NULL))
                return false;
            i++;
        } else if (module == NULL) {
            module = words[i];
        } else {
            return complain("unrecognized arguments: ", words[i]);
        }
    }
    if (module == NULL)
        return complain("the following arguments are required: ", "MODULE");
    paths[kit->path_count++] = module;
    kit->paths = paths;
    return kit->factory == NULL || lmc_kit_is_python(kit) ||
           complain("argument --factory: not a module in Python: ", module);
}

int main(int count, char **words) {
    const char *paths[PATHS_MAX];
    lmc_kit kit = {.out = stdout, .config = "{}", .wait_ns = WAIT_NS, .rounds = 3};
    if (count == 2 && (strcmp(words[1], "-h") == 0 || strcmp(words[1], "--help") == 0)) {
        printf("%s%s", usage, help);
        return 0;
    }
    if (!parse(&kit, paths, count, words))
        return 2;
    lmc_log_set_level("lmcache", LMC_LOG_CRITICAL); /* the kit says itself what is wrong */
    return lmc_kit_run(&kit);
}
