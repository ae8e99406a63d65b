#include "transport/zmq/endpoint.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "base/error.h"

static int bind_text(void *socket, const char *address, bool ipv6, uint16_t port) {
    char endpoint[NI_MAXHOST + 32];
    int on = ipv6;
    if (port == 0)
        snprintf(endpoint, sizeof endpoint, ipv6 ? "tcp://[%s]:*" : "tcp://%s:*", address);
    else
        snprintf(endpoint, sizeof endpoint, ipv6 ? "tcp://[%s]:%u" : "tcp://%s:%u", address,
                 port);
    if (zmq_setsockopt(socket, ZMQ_IPV6, &on, sizeof on) != 0)
        return zmq_errno();
    return zmq_bind(socket, endpoint) == 0 ? 0 : zmq_errno();
}

/* Binds the first address of one family that can be bound. */
static int bind_family(void *socket, const struct addrinfo *list, int family, uint16_t port) {
    int error = EADDRNOTAVAIL;
    for (const struct addrinfo *info = list; info != NULL; info = info->ai_next) {
        char address[NI_MAXHOST];
        if (info->ai_family != family ||
            getnameinfo(info->ai_addr, info->ai_addrlen, address, sizeof address, NULL, 0,
                        NI_NUMERICHOST) != 0)
            continue;
        error = bind_text(socket, address, family == AF_INET6, port);
        if (error == 0 || error == EADDRINUSE)
            break;
    }
    return error;
}

static int bind_name(void *socket, const char *host, uint16_t port, const char **why) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(host, NULL, &hints, &list);
    if (rc != 0) {
        *why = gai_strerror(rc);
        return EADDRNOTAVAIL;
    }
    int error = bind_family(socket, list, AF_INET, port);
    if (error != 0 && error != EADDRINUSE)
        error = bind_family(socket, list, AF_INET6, port);
    freeaddrinfo(list);
    return error;
}

lmc_status lmc_zmq_bind(void *socket, const char *host, uint16_t port, char *bound, size_t size,
                        lmc_error *error) {
    const char *why = NULL;
    int failed = strcmp(host, "*") == 0 ? bind_text(socket, "*", false, port)
                                        : bind_name(socket, host, port, &why);
    if (failed != 0) {
        bool bare_ipv6 = strchr(host, ':') != NULL;
        return lmc_error_set(error, failed == EADDRINUSE ? LMC_BUSY : LMC_FAILED,
                             "cannot bind tcp://%s%s%s:%u: %s", bare_ipv6 ? "[" : "", host,
                             bare_ipv6 ? "]" : "", port,
                             why != NULL ? why : zmq_strerror(failed));
    }
    if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, bound, &size) != 0)
        return lmc_error_set(error, LMC_FAILED, "the bound endpoint: %s",
                             zmq_strerror(zmq_errno()));
    return LMC_OK;
}
