/* The private folder with the plugins' configuration (plugins.md 7.8). */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime_plugin/guardian_state.h"

#define ARGUMENTS_ROOM                                                     \
    ((size_t)64 << 10) /* of the kernel's limit, for words and assignments \
                        */

static char *make_folder(void) {
    const char *places[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp", "/var/tmp"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        lmc_buffer path = LMC_BUFFER_INIT;
        if (places[i] == NULL || places[i][0] != '/')
            continue;
        lmc_buffer_printf(&path, "%s/lmcached-plugins-XXXXXX", places[i]);
        char *folder = lmc_buffer_take(&path);
        if (folder != NULL && mkdtemp(folder) != NULL)
            return folder;
        free(folder);
    }
    return NULL;
}

static bool write_all(int fd, const char *text, size_t size) {
    while (size > 0) {
        ssize_t sent = write(fd, text, size);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        text += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* owner NULL: ours. */
static char *write_file(lmc_guardian *g, const char *name, const struct passwd *owner) {
    lmc_buffer path = LMC_BUFFER_INIT;
    lmc_buffer_printf(&path, "%s/%s", g->folder, name);
    if (path.failed)
        return lmc_buffer_take(&path);
    int fd = open(path.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool written = fd >= 0 && fchmod(fd, 0600) == 0 &&
                   write_all(fd, g->config, strlen(g->config)) &&
                   (owner == NULL || fchown(fd, owner->pw_uid, owner->pw_gid) == 0);
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && !written)
        unlink(path.data);
    if (written)
        return lmc_buffer_take(&path);
    lmc_buffer_fini(&path);
    return NULL;
}

/* The kernel gives arguments and environment a quarter of the stack, up to 6 MiB. */
static size_t environment_limit(void) {
    struct rlimit stack = {0};
    size_t limit = (size_t)6 << 20;
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY &&
        stack.rlim_cur / 4 < limit)
        limit = stack.rlim_cur / 4;
    return limit > ARGUMENTS_ROOM ? limit - ARGUMENTS_ROOM : 0;
}

static void tell_copies(lmc_guardian *g) {
    const lmc_plugin_settings *s = &g->settings;
    const char *instead = g->config_file != NULL ? "plugins find it in the file that "
                                                   "LMCACHE_RUNTIME_PLUGIN_CONFIG_FILE names"
                                                 : "plugins do not get it";
    if (s->copy_main && s->copy_legacy)
        return;
    lmc_outbox_log(&g->outbox, 0, LMC_LOG_ERROR,
                   "The configuration has %zu bytes, too many for the environment of a plugin: "
                   "%s is not set; %s",
                   strlen(s->config),
                   s->copy_main ? "LMCACHE_PLUGIN_CONFIG"
                                : "neither LMCACHE_PLUGIN_CONFIG nor "
                                  "LMCACHE_RUNTIME_PLUGIN_CONFIG",
                   s->copy_main ? "LMCACHE_RUNTIME_PLUGIN_CONFIG is" : instead);
}

void lmc_guardian_write_config(lmc_guardian *g) {
    g->folder = make_folder();
    if (g->folder != NULL)
        g->config_file = write_file(g, "config.json", NULL);
    if (g->config_file == NULL)
        lmc_outbox_log(&g->outbox, 0, LMC_LOG_WARNING,
                       "The plugins' configuration cannot be written to a file: %s",
                       strerror(errno));
    g->settings.config_file = g->config_file;
    lmc_plugin_config_copies(&g->settings, environment_limit(), lmc_environment_size(environ));
    tell_copies(g);
}

/* Others may pass the folder, whose name nobody guesses, and then read their file only. */
char *lmc_guardian_config_for(lmc_guardian *g, uint16_t number, const char *user) {
    char name[32];
    const struct passwd *owner = getpwnam(user);
    if (owner == NULL || g->folder == NULL || chmod(g->folder, 0711) != 0)
        return NULL;
    snprintf(name, sizeof name, "config-%u.json", number);
    return write_file(g, name, owner);
}

void lmc_guardian_remove_files(lmc_guardian *g) {
    for (size_t i = 0; i < g->count; i++)
        if (g->plugins[i] != NULL && g->plugins[i]->user_config != NULL)
            unlink(g->plugins[i]->user_config);
    if (g->config_file != NULL)
        unlink(g->config_file);
    if (g->folder != NULL)
        rmdir(g->folder);
    free(g->config_file);
    free(g->folder);
    g->config_file = g->folder = NULL;
}
