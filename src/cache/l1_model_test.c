/*
 * A simple model of L1 beside the real one: thousands of random steps, the same ones every run,
 * after each of which both must agree on what is there, who holds it, what it contains and
 * which chunks were evicted.
 */
#include "cache/l1_fixture.h"

#define SPACES 2
#define NUMBERS 24
#define RANKS 3
#define CHUNKS (SPACES * NUMBERS)
#define HEAP 64 /* units */
#define DEAD_MAX 4096

typedef enum object_state { ABSENT, STAGING, RESIDENT } object_state;

typedef struct model_object {
    object_state state;
    lmc_object_ref ref; /* while staging or read */
    uint32_t shares;    /* of readers */
    uint32_t units;
    uint32_t stamp; /* what its bytes are made of */
} model_object;

typedef struct model {
    l1_fixture f;
    lmc_key_space *spaces[SPACES];
    model_object objects[CHUNKS][RANKS];
    model_object dead[DEAD_MAX]; /* cleared, still held */
    size_t dead_count;
    int order[CHUNKS]; /* oldest first */
    int order_count;
    bool parked[CHUNKS];
    uint32_t stamp;
    uint64_t random;
    uint64_t evicted, steps_with_eviction, refused;
} model;

static uint32_t pick(model *m, uint32_t below) {
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return (uint32_t)(m->random >> 11) % below;
}

/* ---- the model's age list ---- */

static void order_remove(model *m, int chunk) {
    m->parked[chunk] = false;
    int at = 0;
    while (at < m->order_count && m->order[at] != chunk)
        at++;
    if (at == m->order_count)
        return;
    m->order_count--;
    memmove(m->order + at, m->order + at + 1, (size_t)(m->order_count - at) * sizeof *m->order);
}

static void order_newest(model *m, int chunk) {
    order_remove(m, chunk);
    m->order[m->order_count++] = chunk;
}

static void order_oldest(model *m, int chunk) {
    order_remove(m, chunk);
    memmove(m->order + 1, m->order, (size_t)m->order_count * sizeof *m->order);
    m->order[0] = chunk;
    m->order_count++;
}

static bool is_busy(const model *m, int chunk) {
    for (int rank = 0; rank < RANKS; rank++) {
        const model_object *object = &m->objects[chunk][rank];
        if (object->state == STAGING || object->shares != 0)
            return true;
    }
    return false;
}

static bool is_empty(const model *m, int chunk) {
    for (int rank = 0; rank < RANKS; rank++) {
        if (m->objects[chunk][rank].state != ABSENT)
            return false;
    }
    return true;
}

/* After an object of the chunk changed: where does the chunk stand? */
static void settle_chunk(model *m, int chunk) {
    if (is_empty(m, chunk))
        order_remove(m, chunk);
    else if (m->parked[chunk] && !is_busy(m, chunk))
        order_oldest(m, chunk);
}

/* ---- talking to the real one ---- */

typedef struct model_key {
    lmc_l1_key key;
    uint8_t hash[LMC_HASH_SIZE];
} model_key;

static const lmc_l1_key *make_key(model *m, int chunk, int rank, model_key *out) {
    make_hash((uint64_t)(chunk % NUMBERS), out->hash);
    out->key = (lmc_l1_key){out->hash, m->spaces[chunk / NUMBERS], (uint64_t)rank, 0};
    return &out->key;
}

static bool is_there(model *m, int chunk, int rank) {
    model_key key;
    uint64_t hash;
    lmc_l1_enter(m->f.l1);
    lmc_object_table_prepare(&m->f.l1->table, make_key(m, chunk, rank, &key), 1, &hash);
    bool there = lmc_object_table_find(&m->f.l1->table, &key.key, hash) != 0;
    lmc_l1_leave(m->f.l1);
    return there;
}

static void fill(model *m, const model_object *object) {
    uint32_t *words = lmc_l1_data(m->f.l1, object->ref);
    for (size_t i = 0; i < object->units * (UNIT / sizeof *words); i += 64)
        words[i] = object->stamp;
}

static void check_bytes(model *m, const model_object *object) {
    const uint32_t *words = lmc_l1_data(m->f.l1, object->ref);
    for (size_t i = 0; i < object->units * (UNIT / sizeof *words); i += 64)
        assert_int_equal(words[i], object->stamp);
    assert_int_equal(lmc_l1_size(m->f.l1, object->ref), (uint64_t)object->units * UNIT);
}

/* ---- steps ---- */

/*
 * Finds what the last step evicted and holds it against the order: from the oldest, whole
 * chunks, never a busy one. `all`: the step looked at every chunk there was.
 */
static void account_evictions(model *m, bool all) {
    int at = 0;
    uint64_t before = m->evicted;
    while (at < m->order_count) {
        int chunk = m->order[at], gone = 0, here = 0;
        for (int rank = 0; rank < RANKS; rank++) {
            if (m->objects[chunk][rank].state == ABSENT)
                continue;
            *(is_there(m, chunk, rank) ? &here : &gone) += 1;
        }
        assert_true(gone == 0 || here == 0);
        assert_true(gone == 0 || !is_busy(m, chunk));
        if (gone != 0) {
            memset(m->objects[chunk], 0, sizeof m->objects[chunk]);
            for (int i = 0; i < at; i++)
                assert_true(is_busy(m, m->order[i]));
            for (; at > 0; at--) {
                int passed = m->order[0];
                order_remove(m, passed);
                m->parked[passed] = true;
            }
            order_remove(m, chunk);
            m->evicted += (uint64_t)gone;
        } else {
            assert_true(!all || is_busy(m, chunk));
            at++;
        }
    }
    for (; all && m->order_count > 0;) {
        int passed = m->order[0];
        order_remove(m, passed);
        m->parked[passed] = true;
    }
    m->steps_with_eviction += m->evicted != before;
}

static void step_reserve(model *m) {
    int chunk = (int)pick(m, CHUNKS), rank = (int)pick(m, RANKS);
    uint32_t units = 1 + pick(m, 6);
    model_object *object = &m->objects[chunk][rank];
    object_state was = object->state;
    model_key key;
    lmc_object_ref ref;
    lmc_reserve_result result;
    lmc_l1_reserve(m->f.l1, make_key(m, chunk, rank, &key), 1, (uint64_t)units * UNIT, &ref,
                   &result);
    if (was != ABSENT) {
        assert_int_equal(result, was == STAGING ? LMC_RESERVE_STAGED : LMC_RESERVE_RESIDENT);
        return;
    }
    m->refused += result == LMC_RESERVE_NO_MEMORY;
    account_evictions(m, result == LMC_RESERVE_NO_MEMORY);
    if (result == LMC_RESERVE_NO_MEMORY)
        return;
    assert_int_equal(result, LMC_RESERVED);
    bool was_empty = is_empty(m, chunk);
    *object = (model_object){.state = STAGING, .ref = ref, .units = units, .stamp = ++m->stamp};
    if (was_empty)
        order_newest(m, chunk);
    fill(m, object);
}

/* A random object in a state, readers or not; NULL = none near. */
static model_object *find_object(model *m, object_state state, bool read, int *chunk) {
    int start = (int)pick(m, CHUNKS * RANKS);
    for (int i = 0; i < CHUNKS * RANKS; i++) {
        int at = (start + i) % (CHUNKS * RANKS);
        model_object *object = &m->objects[at / RANKS][at % RANKS];
        *chunk = at / RANKS;
        if (object->state == state && (!read || object->shares != 0))
            return object;
    }
    return NULL;
}

static void step_commit(model *m) {
    int chunk;
    model_object *object = find_object(m, STAGING, false, &chunk);
    if (object == NULL)
        return;
    lmc_l1_commit(m->f.l1, &object->ref, 1);
    object->state = RESIDENT;
    object->ref = LMC_NO_OBJECT;
    settle_chunk(m, chunk);
    order_newest(m, chunk);
}

static void step_discard(model *m) {
    int chunk;
    model_object *object = find_object(m, STAGING, false, &chunk);
    if (object == NULL)
        return;
    lmc_l1_discard(m->f.l1, &object->ref, 1);
    memset(object, 0, sizeof *object);
    settle_chunk(m, chunk);
}

static void step_acquire(model *m) {
    int rank = (int)pick(m, RANKS), first = (int)pick(m, CHUNKS - 4);
    uint32_t shares = 1 + pick(m, 3);
    model_key keys[4];
    lmc_l1_key list[4];
    lmc_object_ref refs[4];
    for (int i = 0; i < 4; i++)
        list[i] = *make_key(m, first + i, rank, &keys[i]);
    lmc_l1_acquire(m->f.l1, list, 4, shares, refs);
    for (int i = 0; i < 4; i++) {
        model_object *object = &m->objects[first + i][rank];
        assert_int_equal(refs[i] != LMC_NO_OBJECT, object->state == RESIDENT);
        if (refs[i] == LMC_NO_OBJECT)
            continue;
        assert_true(object->ref == LMC_NO_OBJECT || object->ref == refs[i]);
        object->ref = refs[i];
        object->shares += shares;
    }
}

static void step_release(model *m) {
    int chunk;
    model_object *object = find_object(m, RESIDENT, true, &chunk);
    if (object == NULL)
        return;
    uint32_t shares = 1 + pick(m, object->shares);
    check_bytes(m, object);
    lmc_l1_release(m->f.l1, &object->ref, 1, shares, pick(m, 2) == 0);
    object->shares -= shares;
    if (object->shares == 0)
        object->ref = LMC_NO_OBJECT;
    settle_chunk(m, chunk);
}

static void step_touch(model *m) {
    int first = (int)pick(m, CHUNKS - 4);
    model_key keys[4];
    lmc_l1_key list[4];
    for (int i = 0; i < 4; i++)
        list[i] = *make_key(m, first + i, 0, &keys[i]);
    lmc_l1_touch(m->f.l1, list, 4);
    for (int i = 3; i >= 0; i--) {
        if (!is_empty(m, first + i))
            order_newest(m, first + i);
    }
}

static void step_clear(model *m) {
    bool force = pick(m, 2) == 0;
    lmc_l1_clear(m->f.l1, force);
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        for (int rank = 0; rank < RANKS; rank++) {
            model_object *object = &m->objects[chunk][rank];
            bool held = object->state == STAGING || object->shares != 0;
            if (held && force)
                m->dead[m->dead_count++] = *object;
            if (!held || force)
                memset(object, 0, sizeof *object);
        }
        settle_chunk(m, chunk);
    }
}

static void step_bury(model *m) {
    if (m->dead_count == 0)
        return;
    size_t at = pick(m, (uint32_t)m->dead_count);
    model_object *object = &m->dead[at];
    check_bytes(m, object);
    if (object->state == STAGING && pick(m, 2) == 0)
        lmc_l1_commit(m->f.l1, &object->ref, 1);
    else if (object->state == STAGING)
        lmc_l1_discard(m->f.l1, &object->ref, 1);
    else
        lmc_l1_release(m->f.l1, &object->ref, 1, object->shares, true);
    *object = m->dead[--m->dead_count];
}

static void step_evict(model *m) {
    lmc_l1_evict_round(m->f.l1);
    account_evictions(m, false);
}

static void step(model *m) {
    uint32_t choice = pick(m, 1000);
    if (choice < 300)
        step_reserve(m);
    else if (choice < 540)
        step_commit(m);
    else if (choice < 580)
        step_discard(m);
    else if (choice < 700)
        step_acquire(m);
    else if (choice < 880)
        step_release(m);
    else if (choice < 940)
        step_touch(m);
    else if (choice < 990)
        step_bury(m);
    else if (choice < 997)
        step_evict(m);
    else
        step_clear(m);
}

static void compare(model *m) {
    lmc_l1_report want = {0}, have;
    uint64_t units = 0;
    for (int i = 0; i < CHUNKS * RANKS; i++) {
        const model_object *object = &m->objects[i / RANKS][i % RANKS];
        units += object->units;
        want.resident_count += object->state == RESIDENT;
        want.staging_count += object->state == STAGING;
        want.staging_bytes += object->state == STAGING ? (uint64_t)object->units * UNIT : 0;
        want.read_locked_count += object->shares != 0;
        if (object->ref != LMC_NO_OBJECT)
            check_bytes(m, object);
    }
    for (size_t i = 0; i < m->dead_count; i++)
        units += m->dead[i].units;
    lmc_l1_report_get(m->f.l1, &have);
    assert_int_equal(have.resident_count, want.resident_count);
    assert_int_equal(have.staging_count, want.staging_count);
    assert_int_equal(have.staging_bytes, want.staging_bytes);
    assert_int_equal(have.read_locked_count, want.read_locked_count);
    assert_int_equal(have.used_bytes, units * UNIT);
    assert_true(have.is_sound);
    assert_true(lmc_l1_check(m->f.l1));
    for (int i = 0; i < CHUNKS * RANKS; i++)
        assert_int_equal(is_there(m, i / RANKS, i % RANKS),
                         m->objects[i / RANKS][i % RANKS].state != ABSENT);
}

static void finish(model *m) {
    lmc_l1_clear(m->f.l1, true);
    for (int i = 0; i < CHUNKS * RANKS; i++) {
        model_object *object = &m->objects[i / RANKS][i % RANKS];
        if (object->state == STAGING || object->shares != 0)
            m->dead[m->dead_count++] = *object;
    }
    while (m->dead_count != 0)
        step_bury(m);
    assert_int_equal(report_of(&m->f).used_bytes, 0);
    assert_true(lmc_l1_check(m->f.l1));
}

static void run_model(uint64_t seed) {
    static model all;
    model *m = &all;
    memset(m, 0, sizeof *m);
    m->random = seed;
    l1_fixture_init(&m->f, HEAP);
    m->spaces[0] = m->f.space;
    assert_int_equal(lmc_key_space_get(m->f.l1, lmc_text("other"), lmc_text(""), &m->spaces[1]),
                     LMC_OK);
    for (int i = 0; i < 20000; i++) {
        step(m);
        if (i % 16 == 0)
            compare(m);
    }
    assert_true(m->steps_with_eviction > 100);
    assert_true(m->refused > 0);
    finish(m);
    lmc_key_space_drop(m->f.l1, m->spaces[1]);
    l1_fixture_fini(&m->f);
}

static void model_and_l1_agree(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++)
        run_model(seed * UINT64_C(0x9e3779b97f4a7c15));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_and_l1_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
