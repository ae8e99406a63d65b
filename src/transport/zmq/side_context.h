/*
 * side_context.h: the libzmq context for sockets of modules, apart from the request
 * transport's.
 *
 * Made when it is first asked for; one per process. Main thread.
 */
#ifndef LMC_TRANSPORT_ZMQ_SIDE_CONTEXT_H
#define LMC_TRANSPORT_ZMQ_SIDE_CONTEXT_H

#include <lmcached/types.h>

void *lmc_zmq_side_context(void *unused); /* NULL: it cannot be made */
/* After the modules were closed. Sockets still open keep it, which is a WARNING. */
void lmc_zmq_side_context_end(int64_t wait_ns);

#endif
