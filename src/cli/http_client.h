/*
 * http_client.h: one HTTP request, for the commands that ask a running server.
 *
 * libcurl is loaded when the first request is made and never linked, so that the server does
 * not carry it. One thread at a time.
 */
#ifndef LMC_CLI_HTTP_CLIENT_H
#define LMC_CLI_HTTP_CLIENT_H

#include "base/bytes.h"
#include "base/error.h"

#define LMC_HTTP_TIMEOUT_SECONDS 10
#define LMC_HTTP_BODY_MAX ((size_t)8 << 20)

typedef struct lmc_http_response {
    int status;       /* 0: none came */
    char reason[128]; /* "Not Found" */
    lmc_buffer body;
    double milliseconds; /* until the whole response was there, or the failure */
} lmc_http_response;

/*
 * Sends `method` ("GET", "POST") without a body. LMC_OK when a response came, whatever its
 * status; otherwise error says why none did, without the address. The response is always to be
 * given back with lmc_http_response_fini().
 */
typedef lmc_status lmc_http_send(const char *method, const char *url,
                                 lmc_http_response *response, lmc_error *error);

lmc_http_send lmc_curl_send;
void lmc_http_response_fini(lmc_http_response *response);

/* The address as requests need it: with a scheme, without slashes at the end; free() it. */
char *lmc_http_base(const char *url);

#endif
