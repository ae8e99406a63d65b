#include "runtime_plugin/supervisor.h"

#define KILL_AGAIN_NS (LMC_NS_PER_S / 2)

void lmc_supervisor_init(lmc_supervisor *s, const lmc_plugin_options *options, int64_t grace_ns,
                         uint64_t seed) {
    *s = (lmc_supervisor){.state = LMC_PLUGIN_EXITED,
                          .policy = options->restart,
                          .max_restarts = options->max_restarts,
                          .grace_ns = grace_ns,
                          .waits_for_ready = options->ready_fd != 0,
                          .deadline_ns = INT64_MAX,
                          .random = seed | 1};
}

bool lmc_supervisor_is_final(const lmc_supervisor *s) {
    return s->state == LMC_PLUGIN_EXITED || s->state == LMC_PLUGIN_FATAL;
}

int64_t lmc_supervisor_deadline(const lmc_supervisor *s) { return s->deadline_ns; }

static void end(lmc_supervisor *s, lmc_plugin_state state) {
    s->state = state;
    s->deadline_ns = INT64_MAX;
    s->again = s->killed = false;
}

static lmc_plugin_order begin(lmc_supervisor *s, int64_t now) {
    end(s, LMC_PLUGIN_STARTING);
    s->started_ns = now;
    if (!s->waits_for_ready)
        s->deadline_ns = now + LMC_PLUGIN_UP_NS;
    return LMC_ORDER_SPAWN;
}

/* ---- asked for ---- */

lmc_plugin_order lmc_supervisor_start(lmc_supervisor *s, int64_t now) {
    if (s->state == LMC_PLUGIN_STOPPING)
        s->again = true;
    if (!lmc_supervisor_is_final(s) && s->state != LMC_PLUGIN_BACKOFF)
        return LMC_ORDER_NOTHING;
    s->in_a_row = 0;
    return begin(s, now);
}

lmc_plugin_order lmc_supervisor_stop(lmc_supervisor *s, bool left, int64_t now) {
    s->again = false;
    if (s->state == LMC_PLUGIN_STOPPING)
        return LMC_ORDER_NOTHING;
    bool runs = s->state == LMC_PLUGIN_STARTING || s->state == LMC_PLUGIN_RUNNING;
    if (!runs && !left) {
        if (s->state == LMC_PLUGIN_BACKOFF)
            end(s, LMC_PLUGIN_EXITED);
        return LMC_ORDER_NOTHING;
    }
    s->state = LMC_PLUGIN_STOPPING;
    s->deadline_ns = now + s->grace_ns;
    return LMC_ORDER_TERM;
}

lmc_plugin_order lmc_supervisor_restart(lmc_supervisor *s, bool left, int64_t now) {
    lmc_plugin_order order = lmc_supervisor_stop(s, left, now);
    s->in_a_row = 0;
    if (s->state == LMC_PLUGIN_STOPPING)
        s->again = true;
    else
        order = begin(s, now);
    s->restarts++;
    return order;
}

/* ---- happened ---- */

void lmc_supervisor_ready(lmc_supervisor *s) {
    if (s->state != LMC_PLUGIN_STARTING)
        return;
    s->state = LMC_PLUGIN_RUNNING;
    s->deadline_ns = s->started_ns + LMC_PLUGIN_SETTLED_NS;
}

void lmc_supervisor_unable(lmc_supervisor *s) { end(s, LMC_PLUGIN_FATAL); }

static uint64_t next_random(lmc_supervisor *s) {
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

/* Doubles from 1 s to 60 s; a quarter more or less, so that many do not start together. */
static int64_t delay(lmc_supervisor *s) {
    int64_t base = LMC_PLUGIN_DELAY_MIN_NS;
    for (int64_t i = 0; i < s->in_a_row && base < LMC_PLUGIN_DELAY_MAX_NS; i++)
        base *= 2;
    if (base > LMC_PLUGIN_DELAY_MAX_NS)
        base = LMC_PLUGIN_DELAY_MAX_NS;
    int64_t jitter = (int64_t)(next_random(s) % (uint64_t)(base / 2)) - base / 4;
    int64_t sum = base + jitter;
    if (sum < LMC_PLUGIN_DELAY_MIN_NS)
        return LMC_PLUGIN_DELAY_MIN_NS;
    return sum > LMC_PLUGIN_DELAY_MAX_NS ? LMC_PLUGIN_DELAY_MAX_NS : sum;
}

void lmc_supervisor_exited(lmc_supervisor *s, bool failed, int64_t now) {
    if (s->state == LMC_PLUGIN_STOPPING || lmc_supervisor_is_final(s))
        return;
    bool wanted =
        s->policy == LMC_PLUGIN_ALWAYS || (s->policy == LMC_PLUGIN_ON_FAILURE && failed);
    if (now - s->started_ns >= LMC_PLUGIN_SETTLED_NS)
        s->in_a_row = 0;
    if (!wanted) {
        end(s, LMC_PLUGIN_EXITED);
    } else if (s->max_restarts > 0 && s->in_a_row >= s->max_restarts) {
        end(s, LMC_PLUGIN_FATAL);
    } else {
        s->state = LMC_PLUGIN_BACKOFF;
        s->deadline_ns = now + delay(s);
        s->in_a_row++;
    }
}

lmc_plugin_order lmc_supervisor_emptied(lmc_supervisor *s, int64_t now) {
    if (s->state != LMC_PLUGIN_STOPPING)
        return LMC_ORDER_NOTHING;
    if (s->again)
        return begin(s, now);
    end(s, LMC_PLUGIN_EXITED);
    return LMC_ORDER_NOTHING;
}

/* ---- time ---- */

lmc_plugin_order lmc_supervisor_tick(lmc_supervisor *s, int64_t now) {
    if (now < s->deadline_ns)
        return LMC_ORDER_NOTHING;
    switch (s->state) {
    case LMC_PLUGIN_STARTING:
        lmc_supervisor_ready(s);
        return LMC_ORDER_NOTHING;
    case LMC_PLUGIN_RUNNING:
        s->in_a_row = 0;
        s->deadline_ns = INT64_MAX;
        return LMC_ORDER_NOTHING;
    case LMC_PLUGIN_BACKOFF:
        s->restarts++;
        return begin(s, now);
    case LMC_PLUGIN_STOPPING:
        s->killed = true;
        s->deadline_ns = now + KILL_AGAIN_NS;
        return LMC_ORDER_KILL;
    default:
        return LMC_ORDER_NOTHING;
    }
}
