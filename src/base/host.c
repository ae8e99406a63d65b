#include "base/host.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

void lmc_host_bare(const char *host, char *out, size_t size) {
    size_t length = strlen(host);
    if (length >= 2 && host[0] == '[' && host[length - 1] == ']')
        snprintf(out, size, "%.*s", (int)(length - 2), host + 1);
    else
        snprintf(out, size, "%s", host);
}

const char *lmc_host_address(const char *bare) {
    return strcasecmp(bare, "localhost") == 0 ? "127.0.0.1" : bare;
}
