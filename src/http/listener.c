#include "http/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/host.h"

void lmc_http_listener_name(const char *host, uint16_t port, char *out, size_t size) {
    bool bare_v6 = strchr(host, ':') != NULL && host[0] != '[';
    snprintf(out, size, bare_v6 ? "[%s]:%u" : "%s:%u", host, (unsigned)port);
}

static lmc_status refuse(const char *host, uint16_t port, int number, lmc_error *error) {
    char name[320];
    lmc_http_listener_name(host, port, name, sizeof name);
    if (number == EADDRINUSE)
        return lmc_error_set(error, LMC_BUSY,
                             "cannot bind the HTTP port %s: address already in use", name);
    return lmc_error_set_errno(error, LMC_FAILED, number, "cannot bind the HTTP port %s", name);
}

static lmc_status resolve(const char *host, uint16_t port, int family, struct addrinfo **found,
                          lmc_error *error) {
    char name[256], service[8];
    lmc_host_bare(host, name, sizeof name);
    if (name[0] == '\0')
        return lmc_error_set(error, LMC_INVALID,
                             "the HTTP host '%s' names no address; 127.0.0.1 is this machine "
                             "only, 0.0.0.0 every interface",
                             host);
    snprintf(service, sizeof service, "%u", (unsigned)port);
    struct addrinfo hints = {
        .ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int failure = getaddrinfo(lmc_host_address(name), service, &hints, found);
    if (failure != 0)
        return lmc_error_set(error, LMC_FAILED, "cannot resolve the HTTP host '%s': %s", host,
                             gai_strerror(failure));
    return LMC_OK;
}

static bool bound_address(int fd, struct sockaddr_storage *address) {
    socklen_t size = sizeof *address;
    *address = (struct sockaddr_storage){0};
    return getsockname(fd, (struct sockaddr *)address, &size) == 0;
}

static uint16_t bound_port(int fd) {
    struct sockaddr_storage address;
    if (!bound_address(fd, &address))
        return 0;
    return ntohs(address.ss_family == AF_INET
                     ? ((struct sockaddr_in *)(void *)&address)->sin_port
                     : ((struct sockaddr_in6 *)(void *)&address)->sin6_port);
}

bool lmc_http_listener_is_loopback(int fd) {
    struct sockaddr_storage address;
    if (!bound_address(fd, &address))
        return false;
    if (address.ss_family == AF_INET)
        return ntohl(((struct sockaddr_in *)(void *)&address)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)(void *)&address)->sin6_addr);
}

/* Returns the socket, or -1 with errno. */
static int bind_address(const struct addrinfo *address) {
    int on = 1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0)
        return fd;
    int number = errno;
    close(fd);
    errno = number;
    return -1;
}

lmc_status lmc_http_listener_bind(const char *host, uint16_t *port, int *fd, lmc_error *error) {
    struct addrinfo *found = NULL;
    if (resolve(host, *port, AF_INET, &found, NULL) != LMC_OK) {
        lmc_status status = resolve(host, *port, AF_INET6, &found, error);
        if (status != LMC_OK)
            return status;
    }
    *fd = bind_address(found);
    int number = errno;
    freeaddrinfo(found);
    if (*fd < 0)
        return refuse(host, *port, number, error);
    *port = bound_port(*fd);
    return LMC_OK;
}

lmc_status lmc_http_listener_listen(int fd, const char *host, uint16_t port, lmc_error *error) {
    /* Two that only bound may both have succeeded; listening tells who has the port. */
    return listen(fd, SOMAXCONN) == 0 ? LMC_OK : refuse(host, port, errno, error);
}
