/*
 * closing.h: closes things one after another and goes on when one of them hangs.
 *
 * close() runs on the calling thread, as module.h promises. A guard thread watches: a close
 * that takes longer than it may is reported by name and abandoned, and the guard thread then
 * does what is left: it closes the rest, under a guard of its own, and calls take_over.
 */
#ifndef LMC_MODULE_CLOSING_H
#define LMC_MODULE_CLOSING_H

#include <lmcached/types.h>

typedef struct lmc_closing {
    const char *name;
    void (*close)(void *self); /* NULL: nothing to do */
    void *self;
} lmc_closing;

/*
 * Closes steps[0], steps[1], ... True: all returned in time. Otherwise take_over(arg) was
 * called on another thread after the others were closed; it usually ends the process. If it
 * returns, and the abandoned close does too, the result is false. `steps` must stay until then.
 */
bool lmc_close_in_order(const lmc_closing *steps, size_t count, int64_t limit_ns,
                        void (*take_over)(void *arg), void *arg);

#endif
