#include "dispatch/call.h"

#include <sched.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "dispatch/dispatcher.h"

#define LMC_LOGGER "lmcache.dispatch"

/*
 * The handle is the address of the exchange, whose low bits are free, plus the low bits of its
 * generation. A handler that completes a call twice therefore does not hit the next request
 * that uses the same record.
 */
#define TAG_MASK ((uintptr_t)LMC_EXCHANGE_ALIGN - 1)

static uint32_t tag_of_word(uint32_t word) {
    return (word / LMC_GENERATION_STEP) & (uint32_t)TAG_MASK;
}

lmc_call *lmc_exchange_call(lmc_exchange *x) {
    uint32_t word = atomic_load_explicit(&x->word, memory_order_relaxed);
    return (lmc_call *)((uintptr_t)x | tag_of_word(word));
}

static lmc_exchange *exchange_of(lmc_call *call) {
    return (lmc_exchange *)((uintptr_t)call & ~TAG_MASK);
}

const void *lmc_call_request(lmc_call *call) { return exchange_of(call)->request; }

void *lmc_call_reply(lmc_call *call) { return exchange_of(call)->reply; }

void *lmc_call_alloc(lmc_call *call, size_t size) {
    return lmc_arena_alloc(&exchange_of(call)->arena, size);
}

lmc_slice lmc_call_text(lmc_call *call, const char *text) {
    lmc_slice from = lmc_text(text);
    char *copy = lmc_arena_text(&exchange_of(call)->arena, from);
    return copy != NULL ? lmc_slice_of(copy, from.size) : lmc_slice_of(NULL, 0);
}

bool lmc_call_on_done(lmc_call *call, void (*done)(void *arg), void *arg) {
    lmc_exchange *x = exchange_of(call);
    if (x->done_count == LMC_EXCHANGE_DONE_MAX)
        return false;
    x->done[x->done_count++] = (lmc_done){done, arg};
    return true;
}

const char *lmc_call_operation(lmc_call *call) { return exchange_of(call)->operation->name; }

void lmc_call_charge(lmc_call *call, lmc_account *account, const char *what) {
    lmc_exchange_charge(exchange_of(call), account);
    if (lmc_busy_here != NULL)
        atomic_store_explicit(&lmc_busy_here->what, what, memory_order_relaxed);
}

/* ---- bytes ---- */

static bool set_pieces(lmc_exchange *x, lmc_pieces *out, const void *data, size_t size) {
    lmc_slice *piece = lmc_arena_alloc(&x->arena, sizeof *piece);
    if (piece == NULL)
        return false;
    *piece = lmc_slice_of(data, size);
    *out = (lmc_pieces){.items = piece, .count = 1, .size = size};
    return true;
}

lmc_slice lmc_call_join(lmc_call *call, const lmc_pieces *bytes) {
    if (bytes->count == 1)
        return bytes->items[0];
    char *copy = lmc_arena_alloc(&exchange_of(call)->arena, bytes->size + 1);
    size_t at = 0;
    if (copy == NULL)
        return lmc_slice_of(NULL, 0);
    for (size_t i = 0; i < bytes->count; i++) {
        if (bytes->items[i].size > 0)
            memcpy(copy + at, bytes->items[i].data, bytes->items[i].size);
        at += bytes->items[i].size;
    }
    return lmc_slice_of(copy, at);
}

bool lmc_call_copy(lmc_call *call, lmc_pieces *out, const void *data, size_t size) {
    lmc_exchange *x = exchange_of(call);
    char *copy = lmc_arena_alloc(&x->arena, size + 1);
    if (copy == NULL)
        return false;
    if (size > 0)
        memcpy(copy, data, size);
    return set_pieces(x, out, copy, size);
}

bool lmc_call_lend(lmc_call *call, lmc_pieces *out, const void *data, size_t size,
                   void (*give_back)(void *arg), void *arg) {
    lmc_exchange *x = exchange_of(call);
    if (give_back != NULL && x->done_count == LMC_EXCHANGE_DONE_MAX)
        return false;
    if (!set_pieces(x, out, data, size))
        return false;
    return give_back == NULL || lmc_call_on_done(call, give_back, arg);
}

/* ---- the end ---- */

uint64_t lmc_call_connection(lmc_call *call) { return exchange_of(call)->peer->id; }

static void report_second_end(lmc_exchange *x, bool same_generation) {
    uint32_t state = atomic_load_explicit(&x->word, memory_order_relaxed) & LMC_STATE_MASK;
    bool latest = same_generation || state == LMC_STATE_IDLE;
    const lmc_operation_def *operation =
        atomic_load_explicit(latest ? &x->latest : &x->before, memory_order_relaxed);
    lmc_dispatch_count(x->dispatcher, LMC_COUNT_TWICE);
    LMC_ERROR("a handler of '%s' completed a call that has ended already; ignored",
              operation != NULL ? operation->name : "?");
}

/* The caller's right to end the call, given once. */
typedef enum claim { CLAIM_REFUSED, CLAIM_ANSWER, CLAIM_DROP } claim;

static claim claim_end(lmc_exchange *x, uint32_t tag) {
    uint32_t word = atomic_load_explicit(&x->word, memory_order_acquire);
    for (;;) {
        uint32_t state = word & LMC_STATE_MASK;
        bool same_generation = tag_of_word(word) == tag;
        if (same_generation && state == LMC_STATE_ABANDONING) {
            sched_yield();
            word = atomic_load_explicit(&x->word, memory_order_acquire);
            continue;
        }
        if (!same_generation || (state != LMC_STATE_RUNNING && state != LMC_STATE_ABANDONED)) {
            report_second_end(x, same_generation);
            return CLAIM_REFUSED;
        }
        uint32_t claimed = (word & ~LMC_STATE_MASK) | LMC_STATE_COMPLETING;
        if (atomic_compare_exchange_weak_explicit(&x->word, &word, claimed,
                                                  memory_order_acq_rel, memory_order_acquire))
            return state == LMC_STATE_RUNNING ? CLAIM_ANSWER : CLAIM_DROP;
    }
}

void lmc_fail(lmc_call *call, lmc_status status, const char *text) {
    lmc_exchange *x = exchange_of(call);
    switch (claim_end(x, (uint32_t)((uintptr_t)call & TAG_MASK))) {
    case CLAIM_REFUSED:
        return;
    case CLAIM_DROP:
        lmc_exchange_drop_abandoned(x);
        return;
    case CLAIM_ANSWER:
        break;
    }
    if (text != NULL)
        x->text = lmc_arena_text(&x->arena, lmc_text(text));
    if (!lmc_exchange_send_back(x, status))
        lmc_exchange_answer(x, status);
}

void lmc_complete(lmc_call *call, lmc_status status) { lmc_fail(call, status, NULL); }

/* True when the handler that takes over may run on this thread, right now. */
static bool may_run_here(const lmc_exchange *x, const lmc_handler *from,
                         const lmc_handler *to) {
    if (to->place == LMC_PLACE_INLINE)
        return to->entry->scheduling != LMC_SYNC || x->door->is_home(x);
    if (to->place == LMC_PLACE_PRIVATE && to->pool != from->pool)
        return false;
    return to->place == from->place || to->place == LMC_PLACE_NORMAL;
}

void lmc_forward(lmc_call *call) {
    lmc_exchange *x = exchange_of(call);
    const lmc_handler *from = x->handler;
    const lmc_handler *to = from->replaced;
    if (to == NULL) {
        lmc_fail(call, LMC_NOT_FOUND, "there is no handler to forward to");
        return;
    }
    lmc_exchange_settle(x, false);
    x->handler = to;
    if (may_run_here(x, from, to)) {
        if (x->started_ns != 0)
            x->started_ns = lmc_now(&lmc_system_clock);
        lmc_exchange_charge(x, to->account);
        to->entry->handle(to->self, call);
        return;
    }
    x->started_ns = 0;
    if (to->place == LMC_PLACE_INLINE)
        x->door->post(x);
    else
        lmc_pools_submit(x->dispatcher->pools, x);
}

void lmc_forward_then(lmc_call *call,
                      void (*after)(void *arg, lmc_call *call, lmc_status status), void *arg) {
    lmc_exchange *x = exchange_of(call);
    if (x->after_count == LMC_EXCHANGE_AFTER_MAX) {
        lmc_fail(call, LMC_FAILED, "too many handlers forwarded this call");
        return;
    }
    x->after[x->after_count++] = (lmc_after){after, arg, x->handler, x->account};
    lmc_forward(call);
}
