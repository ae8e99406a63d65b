/*
 * Random requests against a plain model of who holds which shares. After every step the shares
 * on every object are what the model says.
 */
#include "cache/cache_fixture.h"

#include <stdlib.h>

#define RESIDENT 8
#define SESSIONS 3
#define LOTS_MAX 4096
#define READ_TTL 50
#define LEASE 10
#define SESSION_TTL 70

/* Shares that belong together: of a session, of a lease, or of a transfer. */
typedef struct lot {
    enum { LOT_NONE, LOT_HOLD, LOT_LEASED, LOT_TRANSFER } kind;
    int session, instance; /* instance: transfers */
    size_t first, end;     /* transfers */
    int counts[RESIDENT];
    int64_t expiry, lease;
} lot;

typedef struct model {
    cache_fixture f;
    unsigned seed;
    int64_t now;
    lot lots[LOTS_MAX];
    size_t lot_count;
    bool alive[SESSIONS], consumed[SESSIONS];
    int64_t last_used[SESSIONS];
    unsigned claims[SESSIONS][64];
    size_t claim_count[SESSIONS];
} model;

static const char *const ids[SESSIONS] = {"a", "b", "c"};

static int below(model *m, int limit) {
    return (int)((unsigned)rand_r(&m->seed) % (unsigned)limit);
}

static lot *hold_of(model *m, int session) {
    for (size_t i = 0; i < m->lot_count; i++) {
        if (m->lots[i].kind == LOT_HOLD && m->lots[i].session == session)
            return &m->lots[i];
    }
    return NULL;
}

static lot *add_lot(model *m, lot made) {
    size_t kept = 0;
    for (size_t i = 0; i < m->lot_count; i++) {
        if (m->lots[i].kind != LOT_NONE)
            m->lots[kept++] = m->lots[i];
    }
    assert_true(kept < LOTS_MAX);
    m->lots[kept] = made;
    m->lot_count = kept + 1;
    return &m->lots[kept];
}

static void use(model *m, int session) { m->last_used[session] = m->now; }

static void lease_hold(model *m, int session) {
    lot *hold = hold_of(m, session);
    if (hold == NULL)
        return;
    hold->kind = LOT_LEASED;
    hold->lease = m->now + LEASE;
}

/* ---- one step each ---- */

static void step_lookup(model *m) {
    int session = below(m, SESSIONS);
    size_t chunks = (size_t)below(m, RESIDENT + 3);
    lmc_cache_key key = scheduler_key(&m->f, ids[session], chunks);
    key.num_kv_readers = 1 + below(m, 3);
    lmc_cache_lookup(m->f.cache, &key, 1, 0);
    lease_hold(m, session);
    m->alive[session] = true;
    m->consumed[session] = false;
    m->claim_count[session] = 0;
    use(m, session);
    size_t hit = chunks < RESIDENT ? chunks : RESIDENT;
    if (hit > 0) {
        lot *hold = add_lot(m, (lot){.kind = LOT_HOLD, .session = session});
        hold->expiry = m->now + READ_TTL;
        for (size_t i = 0; i < hit; i++)
            hold->counts[i] = (int)key.num_kv_readers;
    }
    if (below(m, 4) == 0)
        return;
    int64_t answer;
    assert_int_equal(lmc_cache_query(m->f.cache, key.request_id, &answer), LMC_OK);
    assert_int_equal(answer, hit);
    m->consumed[session] = true;
}

static void take(lot *hold, size_t first, size_t end, int shares) {
    for (size_t i = first; hold != NULL && i < end && i < RESIDENT; i++)
        hold->counts[i] -= hold->counts[i] < shares ? hold->counts[i] : shares;
}

static void step_free(model *m) {
    int session = below(m, SESSIONS);
    size_t end = (size_t)below(m, RESIDENT + 2), first = (size_t)below(m, (int)end + 1);
    lmc_cache_key key = scheduler_key(&m->f, ids[session], end);
    key.start = (int64_t)(first * CHUNK);
    key.num_kv_readers = 1 + below(m, 3);
    free_locks(&m->f, key);
    if (!m->alive[session])
        return;
    use(m, session);
    take(hold_of(m, session), first, end, (int)key.num_kv_readers);
}

static bool claim(model *m, int session, unsigned claim) {
    for (size_t i = 0; i < m->claim_count[session]; i++) {
        if (m->claims[session][i] == claim)
            return false;
    }
    if (m->claim_count[session] == 64)
        return false;
    m->claims[session][m->claim_count[session]++] = claim;
    return true;
}

static void step_retrieve(model *m) {
    int session = below(m, SESSIONS), instance = below(m, 4); /* 3 is not registered */
    size_t end = 1 + (size_t)below(m, RESIDENT + 2), first = (size_t)below(m, (int)end);
    lmc_transfer transfer;
    lmc_status status = prepare_retrieve(
        &m->f, instance, worker_key(&m->f, ids[session], 0, first, end), &transfer);
    bool ok = instance != 3 && end <= RESIDENT;
    assert_int_equal(status, ok ? LMC_OK : LMC_NOT_FOUND);
    m->alive[session] = m->alive[session] || instance != 3;
    if (m->alive[session])
        use(m, session);
    lot *hold = hold_of(m, session);
    unsigned id = (unsigned)instance << 16 | (unsigned)first << 8 | (unsigned)end;
    if (!ok) {
        int left = 0;
        for (size_t i = 0; hold != NULL && i < RESIDENT; i++)
            left += hold->counts[i];
        if (left > 0 && claim(m, session, id))
            take(hold, first, end, 1);
        return;
    }
    take(hold, first, end, 1);
    lot made = {.kind = LOT_TRANSFER,
                .session = session,
                .instance = instance,
                .first = first,
                .end = end,
                .expiry = m->now + READ_TTL};
    for (size_t i = first; i < end; i++)
        made.counts[i] = 1;
    add_lot(m, made);
}

static lot *oldest_transfer(model *m, int session, int instance, size_t first, size_t end) {
    for (size_t i = 0; i < m->lot_count; i++) {
        lot *at = &m->lots[i];
        if (at->kind == LOT_TRANSFER && at->instance == instance && at->first == first &&
            at->end == end && (session < 0 || at->session == session))
            return at;
    }
    return NULL;
}

static void step_commit(model *m) {
    int session = below(m, SESSIONS), instance = below(m, 3);
    size_t end = 1 + (size_t)below(m, RESIDENT), first = (size_t)below(m, (int)end);
    if (below(m, 2) == 0 && m->lot_count > 0) { /* mostly one that exists */
        const lot *some = &m->lots[below(m, (int)m->lot_count)];
        if (some->kind == LOT_TRANSFER) {
            instance = some->instance;
            first = some->first;
            end = some->end;
        }
    }
    lmc_cache_key key = worker_key(&m->f, ids[session], 0, first, end);
    lmc_cache_commit_retrieve(m->f.cache, &key, instance, 0);
    lot *found = oldest_transfer(m, session, instance, first, end);
    if (found == NULL)
        found = oldest_transfer(m, -1, instance, first, end);
    if (found != NULL)
        found->kind = LOT_NONE;
}

static void step_end(model *m) {
    int session = below(m, SESSIONS);
    if (!m->alive[session])
        return;
    end_session(&m->f, ids[session]);
    lease_hold(m, session);
    m->alive[session] = false;
}

static void step_time(model *m) {
    int64_t seconds = below(m, 12);
    m->now += seconds;
    advance(&m->f, seconds);
    for (size_t i = 0; i < m->lot_count; i++) {
        lot *at = &m->lots[i];
        if (at->kind != LOT_NONE &&
            (at->expiry <= m->now || (at->kind == LOT_LEASED && at->lease <= m->now)))
            at->kind = LOT_NONE;
    }
    for (int s = 0; s < SESSIONS; s++) {
        if (!m->alive[s] || m->last_used[s] + SESSION_TTL > m->now)
            continue;
        lease_hold(m, s);
        m->alive[s] = false;
    }
}

static void step_unregister(model *m) {
    int instance = below(m, 3);
    assert_true(lmc_cache_unregister(m->f.cache, instance));
    register_one(&m->f, instance, 1);
    for (size_t i = 0; i < m->lot_count; i++) {
        if (m->lots[i].kind == LOT_TRANSFER && m->lots[i].instance == instance)
            m->lots[i].kind = LOT_NONE;
    }
}

static void compare(model *m) {
    size_t sessions = 0;
    for (size_t c = 0; c < RESIDENT; c++) {
        int64_t expected = 0;
        for (size_t i = 0; i < m->lot_count; i++)
            expected += m->lots[i].kind != LOT_NONE ? m->lots[i].counts[c] : 0;
        assert_int_equal(shares_on(&m->f, 1, 0, 0, c), expected);
    }
    for (int s = 0; s < SESSIONS; s++)
        sessions += m->alive[s];
    assert_int_equal(lmc_cache_active_sessions(m->f.cache), sessions);
}

static void (*const steps[])(model *) = {
    step_lookup, step_lookup, step_free, step_retrieve, step_retrieve,
    step_commit, step_commit, step_end,  step_time,     step_time,
};

static void run_model(unsigned seed) {
    static model m;
    lmc_cache_config config = default_config();
    config.read_ttl_ns = READ_TTL * S;
    config.session_lease_ns = LEASE * S;
    config.session_ttl_ns = SESSION_TTL * S;
    m = (model){.seed = seed, .now = 1000};
    assert_int_equal(fixture_open(&m.f, &config), LMC_OK);
    for (int i = 0; i < 3; i++)
        register_one(&m.f, i, 1);
    store(&m.f, 0, worker_key(&m.f, "w", 0, 0, RESIDENT));
    end_session(&m.f, "w");
    for (int i = 0; i < 4000; i++) {
        if (below(&m, 100) == 0)
            step_unregister(&m);
        else
            steps[below(&m, (int)(sizeof(steps) / sizeof(steps[0])))](&m);
        compare(&m);
    }
    for (int i = 0; i < SESSIONS; i++)
        lmc_cache_end_session(m.f.cache, lmc_text(ids[i]));
    advance(&m.f, READ_TTL);
    assert_at_rest(&m.f);
    fixture_fini(&m.f);
}

static void random_requests_hold_what_the_model_says(void **state) {
    (void)state;
    for (unsigned seed = 1; seed <= 6; seed++)
        run_model(seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_requests_hold_what_the_model_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
