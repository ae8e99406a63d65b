/*
 * l1_bench: what the first tier costs with 10^3 and with 10^6 resident objects of 4 KiB.
 *
 * Pages are not needed for that and cost nothing here; start-up is measured with real ones.
 * Prints text, or one JSON object with --json.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "cache/l1_internal.h"

#define OBJECT_SIZE 4096u
#define LOOKUP_KEYS 128u
#define ROUNDS 4000u
#define ROUNDS_MAX 200000u
#define EVICTIONS 7 /* a preempted holder makes a figure of its own, so the median counts */
#define STORE_BATCH 128u
#define GIB (UINT64_C(1) << 30)

typedef struct population {
    lmc_l1 *l1;
    lmc_key_space *space;
    uint8_t (*hashes)[LMC_HASH_SIZE];
    size_t count;
} population;

typedef struct latency {
    int64_t p50, p99, max;
} latency;

typedef struct figures {
    size_t objects;
    latency acquire, release, acquire_evicting;
    double bytes_per_object, resident_per_object;
    int64_t longest_hold_storing, longest_hold_evicting, eviction_ns;
    uint64_t evicted;
} figures;

static _Noreturn void die(const char *what) {
    fprintf(stderr, "l1_bench: %s\n", what);
    exit(1);
}

static lmc_status no_pages(void *arg, uint64_t offset, uint64_t length) {
    (void)arg;
    (void)offset;
    (void)length;
    return LMC_OK;
}

static uint64_t plenty(void *arg) {
    (void)arg;
    return UINT64_MAX;
}

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static int64_t now(void) { return lmc_now(&lmc_system_clock); }

static uint64_t anonymous_bytes(void) {
    char line[256];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "RssAnon: %" SCNu64, &kib) == 1)
            break;
    }
    if (file != NULL)
        (void)fclose(file);
    return kib * 1024;
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static latency summarise(int64_t *samples, size_t count) {
    qsort(samples, count, sizeof *samples, by_value);
    return (latency){samples[count / 2], samples[count * 99 / 100], samples[count - 1]};
}

static void make_keys(const population *p, size_t first, size_t count, lmc_l1_key *keys) {
    for (size_t i = 0; i < count; i++)
        keys[i] = (lmc_l1_key){p->hashes[first + i], p->space, 0x01000100, 0};
}

static void open_population(population *p, size_t count) {
    lmc_l1_config config = {.capacity = (uint64_t)count * OBJECT_SIZE,
                            .align = OBJECT_SIZE,
                            .use_lazy = true,
                            .shm_name = "",
                            .policy = LMC_EVICT_LRU,
                            .watermark = 0.8,
                            .eviction_ratio = 0.2};
    lmc_page_source source = {no_pages, plenty, NULL};
    p->count = count;
    p->hashes = malloc(count * sizeof *p->hashes);
    if (p->hashes == NULL)
        die("out of memory");
    for (size_t i = 0; i < count; i++) {
        for (size_t at = 0; at < LMC_HASH_SIZE; at += 8) {
            uint64_t word = next_random();
            memcpy(p->hashes[i] + at, &word, 8);
        }
    }
    if (lmc_l1_create_from(&config, &source, &lmc_system_clock, NULL, &p->l1, NULL) != LMC_OK ||
        lmc_key_space_get(p->l1, lmc_text("model"), lmc_text(""), &p->space) != LMC_OK)
        die("cannot create L1");
}

static void store_all(population *p) {
    lmc_l1_key keys[STORE_BATCH];
    lmc_object_ref refs[STORE_BATCH];
    lmc_reserve_result results[STORE_BATCH];
    for (size_t at = 0; at < p->count; at += STORE_BATCH) {
        size_t count = p->count - at < STORE_BATCH ? p->count - at : STORE_BATCH;
        make_keys(p, at, count, keys);
        lmc_l1_reserve(p->l1, keys, count, OBJECT_SIZE, refs, results);
        for (size_t i = 0; i < count; i++) {
            if (results[i] != LMC_RESERVED && results[i] != LMC_RESERVE_RESIDENT)
                die("an object found no room");
        }
        lmc_l1_commit(p->l1, refs, count);
    }
}

static int64_t look_up_once(const population *p, int64_t *release_ns) {
    lmc_l1_key keys[LOOKUP_KEYS];
    lmc_object_ref refs[LOOKUP_KEYS];
    make_keys(p, next_random() % (p->count - LOOKUP_KEYS), LOOKUP_KEYS, keys);
    int64_t start = now();
    lmc_l1_acquire(p->l1, keys, LOOKUP_KEYS, 1, refs);
    int64_t middle = now();
    lmc_l1_release(p->l1, refs, LOOKUP_KEYS, 1, false);
    if (release_ns != NULL)
        *release_ns = now() - middle;
    return middle - start;
}

static void look_up(const population *p, figures *out) {
    static int64_t acquire[ROUNDS], release[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++)
        acquire[i] = look_up_once(p, &release[i]);
    out->acquire = summarise(acquire, ROUNDS);
    out->release = summarise(release, ROUNDS);
}

/* ---- eviction, while another thread looks up ---- */

typedef struct eviction {
    population *p;
    _Atomic bool started, done;
    int64_t took_ns;
} eviction;

static void *evict(void *arg) {
    eviction *e = arg;
    atomic_store(&e->started, true);
    int64_t start = now();
    lmc_l1_evict_round(e->p->l1);
    e->took_ns = now() - start;
    atomic_store(&e->done, true);
    return NULL;
}

static void evict_while_looking_up(population *p, figures *out) {
    static int64_t samples[ROUNDS_MAX];
    eviction e = {.p = p};
    pthread_t thread;
    size_t count = 0;
    lmc_l1_report before, after;
    lmc_l1_report_get(p->l1, &before);
    (void)lmc_l1_longest_hold_ns(p->l1);
    if (pthread_create(&thread, NULL, evict, &e) != 0)
        die("cannot start a thread");
    while (!atomic_load(&e.started)) {
    }
    do {
        samples[count++] = look_up_once(p, NULL);
    } while (!atomic_load(&e.done) && count < ROUNDS_MAX);
    (void)pthread_join(thread, NULL);
    lmc_l1_report_get(p->l1, &after);
    out->acquire_evicting = summarise(samples, count);
    out->longest_hold_evicting = lmc_l1_longest_hold_ns(p->l1);
    out->eviction_ns = e.took_ns;
    out->evicted = before.resident_count - after.resident_count;
}

/* Medians over several evictions, refilled in between. */
static void evict_often(population *p, figures *out) {
    figures rounds[EVICTIONS];
    int64_t holds[EVICTIONS], took[EVICTIONS], p50[EVICTIONS], p99[EVICTIONS];
    lmc_lock_measure(true);
    for (int i = 0; i < EVICTIONS; i++) {
        evict_while_looking_up(p, &rounds[i]);
        holds[i] = rounds[i].longest_hold_evicting;
        took[i] = rounds[i].eviction_ns;
        p50[i] = rounds[i].acquire_evicting.p50;
        p99[i] = rounds[i].acquire_evicting.p99;
        store_all(p);
    }
    lmc_lock_measure(false);
    out->evicted = rounds[0].evicted;
    out->longest_hold_evicting = summarise(holds, EVICTIONS).p50;
    out->eviction_ns = summarise(took, EVICTIONS).p50;
    out->acquire_evicting.p50 = summarise(p50, EVICTIONS).p50;
    out->acquire_evicting.p99 = summarise(p99, EVICTIONS).p50;
}

static figures measure(size_t count) {
    population p;
    figures out = {.objects = count};
    open_population(&p, count);
    uint64_t before = anonymous_bytes();
    lmc_lock_measure(true);
    store_all(&p);
    out.longest_hold_storing = lmc_l1_longest_hold_ns(p.l1);
    lmc_lock_measure(false);
    lmc_l1_report report;
    lmc_l1_report_get(p.l1, &report);
    out.bytes_per_object = (double)report.metadata_bytes / (double)count;
    out.resident_per_object = (double)(anonymous_bytes() - before) / (double)count;
    look_up(&p, &out);
    evict_often(&p, &out);
    lmc_key_space_drop(p.l1, p.space);
    lmc_l1_destroy(p.l1);
    free(p.hashes);
    return out;
}

/* Median of several starts with real pages. */
static int64_t measure_start(uint64_t capacity) {
    enum { STARTS = 7 };
    int64_t took[STARTS];
    lmc_l1_config config = {.capacity = capacity,
                            .align = OBJECT_SIZE,
                            .use_lazy = true,
                            .shm_name = "",
                            .policy = LMC_EVICT_LRU,
                            .watermark = 0.8,
                            .eviction_ratio = 0.2};
    for (int i = 0; i < STARTS; i++) {
        lmc_l1 *l1;
        int64_t start = now();
        if (lmc_l1_create(&config, &lmc_system_clock, NULL, &l1, NULL) != LMC_OK)
            die("cannot create L1");
        took[i] = now() - start;
        lmc_l1_destroy(l1);
    }
    return summarise(took, STARTS).p50;
}

static void print_text(const figures *f) {
    printf("%zu objects of 4 KiB\n", f->objects);
    printf("  acquire of 128 keys      p50 %8.2f us  p99 %8.2f us\n",
           (double)f->acquire.p50 / 1e3, (double)f->acquire.p99 / 1e3);
    printf("  release of 128           p50 %8.2f us  p99 %8.2f us\n",
           (double)f->release.p50 / 1e3, (double)f->release.p99 / 1e3);
    printf("  acquire while evicting   p50 %8.2f us  p99 %8.2f us\n",
           (double)f->acquire_evicting.p50 / 1e3, (double)f->acquire_evicting.p99 / 1e3);
    printf("  bytes per object         %8.1f kept, %.1f resident\n", f->bytes_per_object,
           f->resident_per_object);
    printf("  longest hold of the lock %8.1f us storing, %.1f us evicting\n",
           (double)f->longest_hold_storing / 1e3, (double)f->longest_hold_evicting / 1e3);
    printf("  evicted %" PRIu64 " in %.2f ms\n", f->evicted, (double)f->eviction_ns / 1e6);
}

static void print_json(const figures *f) {
    printf("{\"objects\":%zu,\"acquire_p50_ns\":%" PRId64 ",\"acquire_p99_ns\":%" PRId64
           ",\"release_p50_ns\":%" PRId64 ",\"acquire_evicting_p99_ns\":%" PRId64
           ",\"bytes_per_object\":%.1f,\"longest_hold_storing_ns\":%" PRId64
           ",\"longest_hold_evicting_ns\":%" PRId64 ",\"evicted\":%" PRIu64
           ",\"eviction_ns\":%" PRId64 "}",
           f->objects, f->acquire.p50, f->acquire.p99, f->release.p50, f->acquire_evicting.p99,
           f->bytes_per_object, f->longest_hold_storing, f->longest_hold_evicting, f->evicted,
           f->eviction_ns);
}

int main(int argc, char **argv) {
    bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
    figures few = measure(1000), many = measure(1000000);
    int64_t small = measure_start(GIB), large = measure_start(64 * GIB);
    if (json) {
        printf("{\"l1\":[");
        print_json(&few);
        printf(",");
        print_json(&many);
        printf("],\"start_1gib_ns\":%" PRId64 ",\"start_64gib_ns\":%" PRId64 "}\n", small,
               large);
        return 0;
    }
    print_text(&few);
    print_text(&many);
    printf("start: %.3f ms with 1 GiB, %.3f ms with 64 GiB\n", (double)small / 1e6,
           (double)large / 1e6);
    return 0;
}
