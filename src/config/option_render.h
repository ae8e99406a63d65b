/*
 * option_render.h: fields of the configuration that no type of the table fits. Private to this
 * room; called by lmc_config_render() on one thread.
 */
#ifndef LMC_CONFIG_OPTION_RENDER_H
#define LMC_CONFIG_OPTION_RENDER_H

#include "base/json_writer.h"
#include "config/config.h"

typedef struct lmc_option_render {
    lmc_json_writer *writer;
    bool mask;         /* secrets are masked */
    bool mask_plugins; /* also in what is meant for runtime plugins */
} lmc_option_render;

typedef void lmc_render_field(const lmc_config *config, const lmc_option_render *how);

lmc_render_field lmc_render_plugin_extra, lmc_render_server_modules, lmc_render_l1_manager,
    lmc_render_l1_managers, lmc_render_adapters, lmc_render_hash_log, lmc_render_grpc_metrics;

#endif
