/*
 * plugins.h: the server's runtime plugins: started last, stopped first. Private to this room.
 *
 * start, stop and destroy on the main thread; the rest on any, also before start and after
 * stop.
 */
#ifndef LMC_SERVER_PLUGINS_H
#define LMC_SERVER_PLUGINS_H

#include "http/http.h"
#include "server/state.h"

/* Never fails: what cannot be started is logged. */
lmc_status lmc_server_start_plugins(lmc_server *server, lmc_error *error);
void lmc_server_stop_plugins(lmc_server *server);
void lmc_server_destroy_plugins(lmc_server *server); /* after the HTTP door was closed */

/* The members runtime_plugins and plugin_guardian of /status. */
void lmc_server_report_plugins(const lmc_server *server, lmc_writer *writer);
/* What a scrape shows of them. */
void lmc_server_attach_plugin_metrics(lmc_server *server);
/* The functions behind /plugins; those that change something only when they are allowed. */
void lmc_server_offer_plugins(const lmc_server *server, lmc_http_provider *provider);

#endif
