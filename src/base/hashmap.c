#include "base/hashmap.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

#define SMALLEST ((size_t)16)
#define IS_ID SIZE_MAX

/* value NULL and size 0: never used; value NULL and size 1: removed (a tombstone). */
typedef struct entry {
    uint64_t hash;
    union {
        char *text;
        uint64_t id;
    } key;
    size_t size; /* of the text, or IS_ID */
    void *value;
} entry;

struct lmc_hashmap {
    entry *entries;
    size_t capacity; /* 0 or a power of two */
    size_t count;    /* live entries */
    size_t touched;  /* live entries and tombstones */
    lmc_hash_seed seed;
};

typedef struct probe {
    const void *text;
    uint64_t id;
    size_t size;
    uint64_t hash;
} probe;

static probe text_probe(const lmc_hashmap *map, lmc_slice key) {
    return (probe){.text = key.data,
                   .size = key.size,
                   .hash = lmc_hash_keyed(&map->seed, key.data, key.size)};
}

static probe id_probe(const lmc_hashmap *map, uint64_t id) {
    return (probe){.id = id, .size = IS_ID, .hash = lmc_hash_keyed(&map->seed, &id, sizeof id)};
}

static bool is_unused(const entry *e) { return e->value == NULL && e->size == 0; }

static bool matches(const entry *e, const probe *p) {
    if (e->value == NULL || e->hash != p->hash || e->size != p->size)
        return false;
    if (p->size == IS_ID)
        return e->key.id == p->id;
    return p->size == 0 || memcmp(e->key.text, p->text, p->size) == 0;
}

static entry *find(const lmc_hashmap *map, const probe *p) {
    if (map->capacity == 0)
        return NULL;
    size_t mask = map->capacity - 1;
    for (size_t i = p->hash & mask;; i = (i + 1) & mask) {
        entry *e = &map->entries[i];
        if (matches(e, p))
            return e;
        if (is_unused(e))
            return NULL;
    }
}

static entry *free_slot(const lmc_hashmap *map, uint64_t hash) {
    size_t mask = map->capacity - 1;
    size_t i = hash & mask;
    while (map->entries[i].value != NULL)
        i = (i + 1) & mask;
    return &map->entries[i];
}

static bool rehash(lmc_hashmap *map, size_t capacity) {
    entry *entries = calloc(capacity, sizeof *entries);
    if (entries == NULL)
        return false;
    lmc_hashmap old = *map;
    map->entries = entries;
    map->capacity = capacity;
    map->touched = map->count;
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.entries[i].value != NULL)
            *free_slot(map, old.entries[i].hash) = old.entries[i];
    }
    free(old.entries);
    return true;
}

/* At most three quarters of the slots are touched, so every search meets an unused one. */
static bool make_room(lmc_hashmap *map) {
    if (map->capacity == 0)
        return rehash(map, SMALLEST);
    if (map->touched + 1 <= map->capacity / 4 * 3)
        return true;
    bool crowded = map->count >= map->capacity / 2;
    return rehash(map, crowded ? map->capacity * 2 : map->capacity);
}

static char *copy_text(const void *text, size_t size) {
    char *copy = malloc(size + 1);
    if (copy == NULL)
        return NULL;
    if (size > 0)
        memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}

static lmc_status put(lmc_hashmap *map, const probe *p, void *value, void **old) {
    if (old != NULL)
        *old = NULL;
    if (value == NULL)
        return LMC_INVALID;
    entry *e = find(map, p);
    if (e != NULL) {
        if (old != NULL)
            *old = e->value;
        e->value = value;
        return LMC_OK;
    }
    if (!make_room(map))
        return LMC_NO_MEMORY;
    entry fresh = {.hash = p->hash, .size = p->size, .value = value};
    if (p->size == IS_ID)
        fresh.key.id = p->id;
    else if ((fresh.key.text = copy_text(p->text, p->size)) == NULL)
        return LMC_NO_MEMORY;
    e = free_slot(map, p->hash);
    map->touched += is_unused(e);
    *e = fresh;
    map->count++;
    return LMC_OK;
}

static void *take(lmc_hashmap *map, const probe *p) {
    entry *e = find(map, p);
    if (e == NULL)
        return NULL;
    void *value = e->value;
    if (e->size != IS_ID)
        free(e->key.text);
    size_t next = ((size_t)(e - map->entries) + 1) & (map->capacity - 1);
    bool chain_ends = is_unused(&map->entries[next]);
    *e = (entry){.size = chain_ends ? 0 : 1};
    map->touched -= chain_ends;
    map->count--;
    return value;
}

lmc_hashmap *lmc_hashmap_create(void) {
    lmc_hashmap *map = calloc(1, sizeof *map);
    if (map != NULL)
        lmc_hash_seed_init(&map->seed);
    return map;
}

void lmc_hashmap_destroy(lmc_hashmap *map) {
    if (map == NULL)
        return;
    for (size_t i = 0; i < map->capacity; i++) {
        const entry *e = &map->entries[i];
        if (e->value != NULL && e->size != IS_ID)
            free(e->key.text);
    }
    free(map->entries);
    free(map);
}

size_t lmc_hashmap_count(const lmc_hashmap *map) { return map->count; }

lmc_status lmc_hashmap_put(lmc_hashmap *map, lmc_slice key, void *value, void **old) {
    probe p = text_probe(map, key);
    return put(map, &p, value, old);
}

void *lmc_hashmap_get(const lmc_hashmap *map, lmc_slice key) {
    probe p = text_probe(map, key);
    entry *e = find(map, &p);
    return e != NULL ? e->value : NULL;
}

void *lmc_hashmap_remove(lmc_hashmap *map, lmc_slice key) {
    probe p = text_probe(map, key);
    return take(map, &p);
}

lmc_status lmc_hashmap_put_id(lmc_hashmap *map, uint64_t key, void *value, void **old) {
    probe p = id_probe(map, key);
    return put(map, &p, value, old);
}

void *lmc_hashmap_get_id(const lmc_hashmap *map, uint64_t key) {
    probe p = id_probe(map, key);
    entry *e = find(map, &p);
    return e != NULL ? e->value : NULL;
}

void *lmc_hashmap_remove_id(lmc_hashmap *map, uint64_t key) {
    probe p = id_probe(map, key);
    return take(map, &p);
}

bool lmc_hashmap_next(const lmc_hashmap *map, size_t *at, lmc_slice *key, void **value) {
    while (*at < map->capacity) {
        const entry *e = &map->entries[(*at)++];
        if (e->value == NULL)
            continue;
        if (key != NULL && e->size == IS_ID)
            *key = lmc_slice_of(&e->key.id, sizeof e->key.id);
        else if (key != NULL)
            *key = lmc_slice_of(e->key.text, e->size);
        if (value != NULL)
            *value = e->value;
        return true;
    }
    return false;
}
