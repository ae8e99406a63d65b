#include "dispatch/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "dispatch/call.h"
#include "dispatch/dispatcher.h"

#define LMC_LOGGER "lmcache.dispatch"

void lmc_peer_init(lmc_peer *peer) {
    static _Atomic uint64_t latest;
    peer->id = atomic_fetch_add_explicit(&latest, 1, memory_order_relaxed) + 1;
    peer->busy = false;
    atomic_init(&peer->slot, -1);
}

_Thread_local lmc_busy *lmc_busy_here;
_Thread_local lmc_news *lmc_news_here;

static void set_state(lmc_exchange *x, lmc_exchange_state state) {
    uint32_t word = atomic_load_explicit(&x->word, memory_order_relaxed);
    atomic_store_explicit(&x->word, (word & ~LMC_STATE_MASK) | state, memory_order_release);
}

void lmc_exchange_init(lmc_exchange *x, const lmc_door *door, lmc_dispatcher *dispatcher) {
    *x = (lmc_exchange){.door = door, .dispatcher = dispatcher};
    lmc_arena_init(&x->arena, 0);
}

void lmc_exchange_fini(lmc_exchange *x) { lmc_arena_fini(&x->arena); }

void lmc_exchange_begin(lmc_exchange *x, const lmc_operation_def *operation,
                        const lmc_handler *handler, lmc_peer *peer) {
    x->operation = operation;
    x->handler = handler;
    x->peer = peer;
    const lmc_operation_def *before = atomic_load_explicit(&x->latest, memory_order_relaxed);
    atomic_store_explicit(&x->before, before, memory_order_relaxed);
    atomic_store_explicit(&x->latest, operation, memory_order_relaxed);
    set_state(x, LMC_STATE_QUEUED);
}

void lmc_exchange_end(lmc_exchange *x, size_t keep) {
    x->arena.keep = keep;
    lmc_arena_reset(&x->arena);
    x->request = NULL;
    x->reply = NULL;
    x->text = NULL;
    x->done_count = 0;
    x->after_count = 0;
    x->comes_back = false;
    x->started_ns = 0;
    x->in_affinity = false;
    x->is_barrier = false;
    uint32_t word = atomic_load_explicit(&x->word, memory_order_relaxed);
    uint32_t next = (word & ~LMC_STATE_MASK) + LMC_GENERATION_STEP;
    atomic_store_explicit(&x->word, next | LMC_STATE_IDLE, memory_order_release);
}

/* The handler is done with x, or never had it: nothing of the request is needed any more. */
static void leave(lmc_exchange *x, bool answered) {
    for (uint32_t i = 0; i < x->done_count; i++)
        x->done[i].call(x->done[i].arg);
    x->done_count = 0;
    if (x->in_affinity)
        lmc_pools_end_turn(x->dispatcher->pools, x);
    x->door->finish(x, answered);
}

/* ---- whose it is ---- */

static void show_busy(lmc_account *account, const char *what) {
    lmc_busy *busy = lmc_busy_here;
    if (busy == NULL)
        return;
    atomic_store_explicit(&busy->what, what, memory_order_relaxed);
    atomic_store_explicit(&busy->account, account, memory_order_release);
}

void lmc_exchange_charge(lmc_exchange *x, lmc_account *account) {
    x->account = account;
    lmc_account_begin(account);
    show_busy(account, x->operation->name);
}

void lmc_exchange_settle(lmc_exchange *x, bool failed) {
    int64_t took = x->started_ns != 0 && x->account != NULL
                       ? lmc_now(&lmc_system_clock) - x->started_ns
                       : -1;
    lmc_account_end(x->account, failed, took);
    x->account = NULL;
}

static bool encode_negative(lmc_exchange *x, void *reply) {
    if (x->operation->negative == LMC_NEGATIVE_NONE || reply == NULL || x->request == NULL)
        return false;
    memset(reply, 0, x->operation->reply_size);
    if (x->operation->negative == LMC_NEGATIVE_REPLY)
        lmc_reply_negative(x->operation, x->request, reply);
    if (x->operation->index == LMC_OP_server_module_call && x->text != NULL)
        ((lmc_server_module_call_reply *)reply)->error =
            lmc_slice_is_utf8(lmc_text(x->text))
                ? lmc_text(x->text)
                : lmc_text("failed with a text that is not UTF-8");
    return x->door->encode(x, reply, LMC_OK) == LMC_OK;
}

/* A method of a module failed: that is the module's, and an ERROR, not the peer's. */
static void log_method(const lmc_exchange *x, lmc_status status) {
    static lmc_log_limit limit;
    const lmc_server_module_call_request *request = x->request;
    uint64_t suppressed;
    if (lmc_log_allow(&limit, &suppressed))
        LMC_ERROR("server module method %.*s failed: %s%s", LMC_SLICE_ARGS(request->method),
                  x->text != NULL ? x->text : lmc_status_name(status),
                  lmc_log_more(suppressed).text);
}

static void log_failure(const lmc_exchange *x, lmc_status status, bool answered) {
    static lmc_log_limit limit;
    uint64_t suppressed;
    if (x->operation->index == LMC_OP_server_module_call && x->account != NULL &&
        status != LMC_CLOSED) {
        log_method(x, status);
        return;
    }
    if (status == LMC_CLOSED) {
        LMC_DEBUG("%s: refused, the server is stopping", x->operation->name);
        return;
    }
    if (status == LMC_DECLINED) {
        LMC_DEBUG("%s: declined; its handler has said why", x->operation->name);
        return;
    }
    if (!lmc_log_allow(&limit, &suppressed))
        return;
    LMC_WARNING("Error handling operation %s: %s%s%s; %s%s", x->operation->name,
                lmc_status_name(status), x->text != NULL ? ": " : "",
                x->text != NULL ? x->text : "",
                answered ? "answered with its negative" : "it has no negative, so no answer",
                lmc_log_more(suppressed).text);
}

void lmc_exchange_answer(lmc_exchange *x, lmc_status status) {
    bool answered = false;
    if (status == LMC_OK || (status == LMC_AGAIN && x->operation->may_pend)) {
        status = x->door->encode(x, x->reply, status);
        answered = status == LMC_OK;
    }
    if (!answered) {
        answered = encode_negative(x, x->reply);
        lmc_dispatch_count(x->dispatcher, answered ? LMC_COUNT_NEGATIVE : LMC_COUNT_UNANSWERED);
        log_failure(x, status, answered);
        lmc_exchange_settle(x, true);
    }
    lmc_exchange_settle(x, false);
    leave(x, answered);
}

void lmc_exchange_drop_abandoned(lmc_exchange *x) {
    lmc_exchange_settle(x, false);
    leave(x, false);
}

static void reject_malformed(lmc_exchange *x, const lmc_error *error) {
    static lmc_log_limit limit;
    uint64_t suppressed;
    lmc_dispatch_count(x->dispatcher, LMC_COUNT_MALFORMED);
    if (lmc_log_allow(&limit, &suppressed))
        LMC_WARNING("request not answered: %s%s",
                    error->text[0] != '\0' ? error->text : x->operation->name,
                    lmc_log_more(suppressed).text);
    leave(x, false);
}

static bool may_reach_outside(const lmc_handler *handler) {
    return handler != NULL &&
           (handler->outside || (handler->entry->flags & LMC_RUNS_OUTSIDE) != 0);
}

/* Makes request and reply. False: that failed, and x has been answered or dropped. */
static bool decode(lmc_exchange *x) {
    if (x->request != NULL)
        return true;
    lmc_error error;
    lmc_error_clear(&error);
    lmc_status status = LMC_NO_MEMORY;
    size_t room = may_reach_outside(x->handler) ? LMC_MESSAGE_ROOM : 0;
    x->reply = lmc_arena_zalloc(&x->arena, x->operation->reply_size + room);
    x->request = lmc_arena_zalloc(&x->arena, x->operation->request_size + room);
    if (x->reply != NULL && x->request != NULL)
        status = x->door->decode(x, &error);
    if (status == LMC_OK)
        return true;
    set_state(x, LMC_STATE_COMPLETING);
    if (status == LMC_MALFORMED) {
        reject_malformed(x, &error);
        return false;
    }
    if (error.text[0] != '\0')
        x->text = lmc_arena_text(&x->arena, lmc_text(error.text));
    lmc_exchange_answer(x, status);
    return false;
}

/* The handler that forwarded the call has it again. */
static void resume(lmc_exchange *x) {
    lmc_after after = x->after[--x->after_count];
    lmc_call *call = lmc_exchange_call(x);
    x->comes_back = false;
    x->account = after.account; /* one call, however often it comes back */
    if (after.account != NULL && after.account->outside)
        atomic_fetch_add_explicit(&after.account->in_flight, 1, memory_order_relaxed);
    show_busy(after.account, x->operation->name);
    set_state(x, LMC_STATE_RUNNING);
    after.call(after.arg, call, x->came_with);
}

void lmc_exchange_run(lmc_exchange *x) {
    if (!decode(x))
        return;
    lmc_lock_assert_none();
    if (x->comes_back) {
        resume(x);
        return;
    }
    const lmc_handler *handler = x->handler;
    lmc_call *call = lmc_exchange_call(x);
    lmc_exchange_charge(x, handler->account);
    set_state(x, LMC_STATE_RUNNING);
    handler->entry->handle(handler->self, call);
}

bool lmc_exchange_run_at_once(lmc_exchange *x) {
    if (!decode(x))
        return true;
    if (!x->handler->answers_at_once(x->handler->self, x->request))
        return false;
    lmc_exchange_run(x);
    return true;
}

bool lmc_exchange_send_back(lmc_exchange *x, lmc_status status) {
    if (x->after_count == 0)
        return false;
    lmc_exchange_settle(x, status < 0);
    x->handler = x->after[x->after_count - 1].handler;
    x->comes_back = true;
    x->came_with = status;
    set_state(x, LMC_STATE_QUEUED);
    lmc_pools_submit(x->dispatcher->pools, x);
    return true;
}

void lmc_exchange_refuse(lmc_exchange *x, lmc_status status) {
    if (!decode(x))
        return;
    set_state(x, LMC_STATE_COMPLETING);
    lmc_exchange_answer(x, status);
}

bool lmc_exchange_abandon(lmc_exchange *x) {
    if (x->operation->negative == LMC_NEGATIVE_NONE)
        return false;
    void *reply = calloc(1, x->operation->reply_size + 1);
    if (reply == NULL)
        return false;
    uint32_t word = atomic_load_explicit(&x->word, memory_order_acquire);
    bool taken = (word & LMC_STATE_MASK) == LMC_STATE_RUNNING;
    uint32_t claimed = (word & ~LMC_STATE_MASK) | LMC_STATE_ABANDONING;
    taken = taken && atomic_compare_exchange_strong(&x->word, &word, claimed);
    bool encoded = taken && encode_negative(x, reply);
    free(reply);
    if (taken)
        set_state(x, LMC_STATE_ABANDONED);
    if (encoded)
        lmc_dispatch_count(x->dispatcher, LMC_COUNT_NEGATIVE);
    return encoded;
}
