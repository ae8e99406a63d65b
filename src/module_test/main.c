/*
 * lmcached-module-test: the conformance kit for authors of server modules.
 *
 * Exit status: 0 every step passed, 1 some step found something, 2 wrong usage.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "module_test/kit.h"

#define PATHS_MAX 64
#define WAIT_NS (5 * LMC_NS_PER_S)

static const char usage[] =
    "usage: lmcached-module-test [--config JSON] [--factory NAME] [--times N] [--with "
    "OTHER.so]...\n"
    "                            MODULE\n"
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

static bool parse(lmc_kit *kit, const char **paths, int count, char **words) {
    const char *module = NULL;
    for (int i = 1; i < count; i++) {
        bool last = i + 1 == count;
        if (strcmp(words[i], "--config") == 0 && !last)
            kit->config = words[++i];
        else if (strcmp(words[i], "--factory") == 0 && !last)
            kit->factory = words[++i];
        else if (strcmp(words[i], "--times") == 0 && !last)
            kit->rounds = (unsigned)strtoul(words[++i], NULL, 10);
        else if (strcmp(words[i], "--with") == 0 && !last && kit->path_count < PATHS_MAX - 1)
            paths[kit->path_count++] = words[++i];
        else if (words[i][0] != '-' && module == NULL)
            module = words[i];
        else
            return false;
    }
    if (module == NULL)
        return false;
    paths[kit->path_count++] = module;
    kit->paths = paths;
    return kit->rounds > 0 && (kit->factory == NULL || lmc_kit_is_python(kit));
}

int main(int count, char **words) {
    const char *paths[PATHS_MAX];
    lmc_kit kit = {.out = stdout, .config = "{}", .wait_ns = WAIT_NS, .rounds = 3};
    if (count == 2 && (strcmp(words[1], "-h") == 0 || strcmp(words[1], "--help") == 0)) {
        fputs(usage, stdout);
        return 0;
    }
    if (!parse(&kit, paths, count, words)) {
        fputs(usage, stderr);
        return 2;
    }
    lmc_log_set_level("lmcache", LMC_LOG_CRITICAL); /* the kit says itself what is wrong */
    return lmc_kit_run(&kit);
}
