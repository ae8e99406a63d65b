/*
 * exchange.h: libmicrohttpd's callbacks: a request from its first line to the end of its reply.
 *
 * All run on the event thread.
 */
#ifndef LMC_HTTP_EXCHANGE_H
#define LMC_HTTP_EXCHANGE_H

#include <microhttpd.h>

#include "http/request.h"

void lmc_http_on_connection(void *http, struct MHD_Connection *connection, void **peer,
                            enum MHD_ConnectionNotificationCode what);
void *lmc_http_on_target(void *http, const char *target, struct MHD_Connection *connection);
enum MHD_Result lmc_http_on_access(void *http, struct MHD_Connection *connection,
                                   const char *url, const char *method, const char *version,
                                   const char *upload, size_t *upload_size, void **request);
void lmc_http_on_completed(void *http, struct MHD_Connection *connection, void **request,
                           enum MHD_RequestTerminationCode why);

/* What the pool calls with a request (pool threads). */
void lmc_http_run_on_pool(lmc_http_request *request);
void lmc_http_refuse_on_pool(lmc_http_request *request);

#endif
