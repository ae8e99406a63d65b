#include "transport/zmq/greeting.h"

#include <linux/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/log.h"

#define LMC_LOGGER "lmcache.zmq"

/* Our greeting has 64 bytes; what follows when the peer has sent its own has more than 30. */
#define GREETING_ONLY 80

static void name_peer(int fd, struct sockaddr_in6 *peer) {
    socklen_t size = sizeof *peer;
    memset(peer, 0, sizeof *peer);
    if (getpeername(fd, (struct sockaddr *)(void *)peer, &size) != 0)
        memset(peer, 0, sizeof *peer);
}

void lmc_zmq_greeting_begin(lmc_zmq_greeting *greeting, int fd, int64_t now) {
    greeting->since_ns = now;
    name_peer(fd, &greeting->peer);
}

static bool has_unread(int fd) {
    int bytes = 0;
    return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

static bool was_answered(int fd) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
           info.tcpi_bytes_acked >= GREETING_ONLY;
}

bool lmc_zmq_greeting_check(lmc_zmq_greeting *greeting, int fd) {
    struct sockaddr_in6 peer;
    if (has_unread(fd))
        return false;
    name_peer(fd, &peer);
    if (!was_answered(fd) && memcmp(&peer, &greeting->peer, sizeof peer) == 0) {
        LMC_DEBUG("descriptor %d: nothing came that a client would say; shut down", fd);
        (void)shutdown(fd, SHUT_RDWR); /* libzmq sees the end and closes it */
    }
    greeting->since_ns = 0;
    return true;
}
