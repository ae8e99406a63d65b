#include "transport/zmq/endpoint.h"

#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "base/error.h"
#include "base/host.h"

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

/* libzmq knows `*` and the names of interfaces by itself. */
static bool is_for_libzmq(const char *host) {
    return strcmp(host, "*") == 0 || if_nametoindex(host) != 0;
}

/* Names the option that helps. */
static lmc_status refuse(const char *name, uint16_t port, int failed, const char *why,
                         lmc_error *error) {
    bool ipv6 = strchr(name, ':') != NULL, busy = failed == EADDRINUSE;
    if (busy)
        why = "address already in use";
    else if (why == NULL)
        why = zmq_strerror(failed);
    return lmc_error_set(error, busy ? LMC_BUSY : LMC_FAILED,
                         "cannot bind tcp://%s%s%s:%u: %s; %s", ipv6 ? "[" : "", name,
                         ipv6 ? "]" : "", port, why,
                         busy ? "--port chooses another" : "--host names the address");
}

lmc_status lmc_zmq_bind(void *socket, const char *host, uint16_t port, char *bound, size_t size,
                        lmc_error *error) {
    const char *why = NULL;
    char name[NI_MAXHOST];
    lmc_host_bare(host, name, sizeof name);
    const char *address = lmc_host_address(name);
    int failed = is_for_libzmq(address) ? bind_text(socket, address, false, port)
                                        : bind_name(socket, address, port, &why);
    if (failed != 0)
        return refuse(name, port, failed, why, error);
    if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, bound, &size) != 0)
        return lmc_error_set(error, LMC_FAILED, "the bound endpoint: %s",
                             zmq_strerror(zmq_errno()));
    return LMC_OK;
}
