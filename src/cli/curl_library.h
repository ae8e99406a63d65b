/*
 * curl_library.h: the few functions of libcurl that are used, found at run time.
 *
 * The numbers are libcurl's binary interface, which does not change within libcurl.so.4.
 */
#ifndef LMC_CLI_CURL_LIBRARY_H
#define LMC_CLI_CURL_LIBRARY_H

#include "base/error.h"

enum {
    LMC_CURL_OPT_WRITE_DATA = 10001,
    LMC_CURL_OPT_URL = 10002,
    LMC_CURL_OPT_PROXY = 10004,
    LMC_CURL_OPT_ERROR_BUFFER = 10010,
    LMC_CURL_OPT_USER_AGENT = 10018,
    LMC_CURL_OPT_HEADER_DATA = 10029,
    LMC_CURL_OPT_CUSTOM_REQUEST = 10036,
    LMC_CURL_OPT_POST = 47,
    LMC_CURL_OPT_FOLLOW_LOCATION = 52,
    LMC_CURL_OPT_POST_FIELD_SIZE = 60,
    LMC_CURL_OPT_MAX_REDIRECTS = 68,
    LMC_CURL_OPT_NO_SIGNAL = 99,
    LMC_CURL_OPT_TIMEOUT_MS = 155,
    LMC_CURL_OPT_PROTOCOLS = 181,
    LMC_CURL_OPT_WRITE_FUNCTION = 20011,
    LMC_CURL_OPT_HEADER_FUNCTION = 20079,
    LMC_CURL_PROTOCOL_HTTP = 1,
    LMC_CURL_PROTOCOL_HTTPS = 2,
    LMC_CURL_GLOBAL_DEFAULT = 3,
    LMC_CURL_INFO_RESPONSE_CODE = 0x200002,
    LMC_CURL_ERROR_SIZE = 256,
    LMC_CURL_BAD_URL = 3,
};

typedef struct lmc_curl_library {
    int (*global_init)(long flags);
    void *(*easy_init)(void);
    int (*easy_setopt)(void *handle, int option, ...);
    int (*easy_perform)(void *handle);
    int (*easy_getinfo)(void *handle, int info, ...);
    const char *(*easy_strerror)(int code);
    void (*easy_cleanup)(void *handle);
} lmc_curl_library;

/* Loads the library once. NULL: it is missing; error names the package to install. */
const lmc_curl_library *lmc_curl_load(lmc_error *error);

#endif
