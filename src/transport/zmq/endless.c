#include "transport/zmq/endless.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/heap.h"

#define LOOK_FROM ((size_t)512 << 20)    /* of growth: less is a crowd's, or a burst's */
#define STRANGE_FROM ((size_t)512 << 20) /* beyond what is explained */
#define MUCH ((uint64_t)64 << 10)        /* from one connection */

void lmc_zmq_growth_accept(lmc_zmq_growth *growth) {
    growth->resident = lmc_heap_resident();
    growth->in_use = lmc_heap_in_use();
}

bool lmc_zmq_growth_is_large(lmc_zmq_growth *growth) {
    size_t resident = lmc_heap_resident();
    if (resident < growth->resident)
        lmc_zmq_growth_accept(growth);
    return resident > growth->resident && resident - growth->resident > LOOK_FROM;
}

static size_t more(size_t now, size_t then) { return now > then ? now - then : 0; }

/* Neither memory that was freed and is kept, nor what was asked for and never touched. */
bool lmc_zmq_growth_is_strange(const lmc_zmq_growth *growth, size_t explained) {
    size_t grown = more(lmc_heap_resident(), growth->resident);
    size_t in_use = lmc_heap_in_use();
    if (in_use > 0 && more(in_use, growth->in_use) < grown)
        grown = more(in_use, growth->in_use);
    return more(grown, explained) > STRANGE_FROM;
}

/* What libzmq has read of a connection so far. */
static uint64_t bytes_read(int fd) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    int unread = 0;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        ioctl(fd, FIONREAD, &unread) != 0 || (uint64_t)unread > info.tcpi_bytes_received)
        return 0;
    return info.tcpi_bytes_received - (uint64_t)unread;
}

uint64_t lmc_zmq_progress_look(lmc_zmq_progress *progress, int fd, uint32_t messages) {
    uint64_t bytes = bytes_read(fd);
    if (messages != progress->messages || bytes < progress->bytes_then) {
        progress->messages = messages;
        progress->bytes_then = bytes;
        progress->large = false;
    }
    bool was_large = progress->large;
    progress->unended = bytes - progress->bytes_then;
    progress->large = progress->unended >= MUCH;
    progress->stalled = was_large && progress->large;
    return progress->unended;
}
