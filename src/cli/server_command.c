/* server: the words become a configuration, and that a server. */
#include "base/log.h"
#include "cache/pool.h"
#include "cli/cli.h"
#include "config/config.h"
#include "server/server.h"

#define LMC_LOGGER "lmcache.cli"

static void full_name(const lmc_cli *cli, lmc_buffer *name) {
    lmc_buffer_printf(name, "%s server", cli->program);
}

static int print_text(lmc_cli *cli, lmc_buffer *text, int status) {
    if (text->failed) {
        LMC_ERROR("Command failed: out of memory");
        status = LMC_EXIT_FAILED;
    } else {
        fwrite(text->data, 1, text->size, cli->out);
    }
    lmc_buffer_fini(text);
    return status;
}

static int show_help(lmc_cli *cli) {
    lmc_buffer name = LMC_BUFFER_INIT, text = LMC_BUFFER_INIT;
    full_name(cli, &name);
    if (!name.failed)
        lmc_config_help(&text, name.data);
    text.failed |= name.failed;
    lmc_buffer_fini(&name);
    return print_text(cli, &text, 0);
}

static int tell_usage(lmc_cli *cli, const lmc_error *error) {
    lmc_buffer name = LMC_BUFFER_INIT, text = LMC_BUFFER_INIT;
    full_name(cli, &name);
    if (!name.failed)
        lmc_config_usage(&text, name.data);
    fprintf(cli->err, "%s%s: error: %s\n", text.data != NULL ? text.data : "",
            name.data != NULL ? name.data : "server", error->text);
    lmc_buffer_fini(&name);
    lmc_buffer_fini(&text);
    return LMC_EXIT_USAGE;
}

static void log_notices(const lmc_config *config) {
    for (size_t i = 0; i < config->notice_count; i++)
        LMC_LOG(config->notices[i].level, "%s", config->notices[i].text);
}

/* What --check-config prints is what GET /config would answer. */
static int show_config(lmc_cli *cli, const lmc_config *config) {
    lmc_buffer text = LMC_BUFFER_INIT;
    log_notices(config);
    if (lmc_config_render(config, LMC_CONFIG_HTTP, &text) != LMC_OK)
        text.failed = true;
    lmc_buffer_char(&text, '\n');
    return print_text(cli, &text, 0);
}

/* The names of pools are the only values whose form the cache knows. */
static lmc_status check_pool_names(const lmc_config *config, lmc_error *error) {
    const lmc_storage_config *storage = &config->storage_manager;
    char name[LMC_POOL_NAME_MAX + 1];
    lmc_status status = lmc_pool_name(config->mp.shm_name, name, error);
    for (size_t i = 0; i < storage->l1_manager_count && status == LMC_OK; i++)
        status = lmc_pool_name(storage->l1_managers[i].memory_config.shm_name, name, error);
    return status;
}

int lmc_command_server(lmc_cli *cli, int count, char *const *words) {
    static lmc_config config; /* a thread that a stop had to leave behind may still read it */
    lmc_error error = LMC_ERROR_INIT;
    int result = LMC_EXIT_FAILED;
    lmc_status status = lmc_config_parse(&config, count, words, NULL, &error);
    if (status == LMC_OK) {
        lmc_log_read_environment();
        status = check_pool_names(&config, &error);
    }
    if (status == LMC_OK && !config.check_config)
        return lmc_server_run(&config, cli->program);
    if (status == LMC_OK)
        result = show_config(cli, &config);
    else if (status == LMC_DECLINED)
        result = show_help(cli);
    else if (status == LMC_MALFORMED)
        result = tell_usage(cli, &error);
    else {
        log_notices(&config);
        LMC_ERROR("%s", error.text);
    }
    lmc_config_fini(&config);
    return result;
}
