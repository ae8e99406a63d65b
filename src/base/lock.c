#include "base/lock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

static atomic_bool measuring;

#ifndef NDEBUG
#define HELD_MAX 16
static _Thread_local const lmc_lock *held[HELD_MAX];
static _Thread_local int held_count;

static _Noreturn void refuse(const char *what, const lmc_lock *taken, const lmc_lock *holding) {
    fprintf(stderr, "lock order: %s: \"%s\" (%d) while holding \"%s\" (%d)\n", what,
            taken != NULL ? taken->name : "-", taken != NULL ? (int)taken->rank : 0,
            holding != NULL ? holding->name : "-", holding != NULL ? (int)holding->rank : 0);
    abort();
}

static void check_order(const lmc_lock *lock) {
    for (int i = 0; i < held_count; i++) {
        if (held[i]->rank >= lock->rank)
            refuse(held[i] == lock ? "taken twice" : "wrong order", lock, held[i]);
    }
    if (held_count == HELD_MAX)
        refuse("too many locks", lock, held[held_count - 1]);
}

static void note_taken(const lmc_lock *lock) { held[held_count++] = lock; }

static void note_dropped(const lmc_lock *lock) {
    for (int i = held_count - 1; i >= 0; i--) {
        if (held[i] != lock)
            continue;
        for (int k = i + 1; k < held_count; k++)
            held[k - 1] = held[k];
        held_count--;
        return;
    }
    refuse("dropped without being held", lock, NULL);
}

static void check_held(const lmc_lock *lock) {
    for (int i = 0; i < held_count; i++) {
        if (held[i] == lock)
            return;
    }
    refuse("waited for without being held", lock, NULL);
}

void lmc_lock_assert_none(void) {
    if (held_count > 0)
        refuse("calling out", NULL, held[held_count - 1]);
}
#else
static void check_order(const lmc_lock *lock) { (void)lock; }
static void note_taken(const lmc_lock *lock) { (void)lock; }
static void note_dropped(const lmc_lock *lock) { (void)lock; }
static void check_held(const lmc_lock *lock) { (void)lock; }
void lmc_lock_assert_none(void) {}
#endif

static void start_hold(lmc_lock *lock) {
    bool measure = atomic_load_explicit(&measuring, memory_order_relaxed);
    lock->taken_ns = measure ? lmc_now(&lmc_system_clock) : 0;
}

static void end_hold(lmc_lock *lock) {
    if (lock->taken_ns == 0)
        return;
    int64_t hold = lmc_now(&lmc_system_clock) - lock->taken_ns;
    if (hold > lock->longest_ns)
        lock->longest_ns = hold;
    lock->taken_ns = 0;
}

void lmc_lock_init(lmc_lock *lock, lmc_lock_rank rank, const char *name) {
    pthread_mutex_init(&lock->mutex, NULL);
    lock->name = name;
    lock->rank = rank;
    lock->taken_ns = 0;
    lock->longest_ns = 0;
}

void lmc_lock_fini(lmc_lock *lock) { pthread_mutex_destroy(&lock->mutex); }

void lmc_lock_take(lmc_lock *lock) {
    check_order(lock);
    pthread_mutex_lock(&lock->mutex);
    note_taken(lock);
    start_hold(lock);
}

bool lmc_lock_try(lmc_lock *lock) {
    check_order(lock);
    if (pthread_mutex_trylock(&lock->mutex) != 0)
        return false;
    note_taken(lock);
    start_hold(lock);
    return true;
}

void lmc_lock_drop(lmc_lock *lock) {
    note_dropped(lock);
    end_hold(lock);
    pthread_mutex_unlock(&lock->mutex);
}

void lmc_lock_measure(bool on) { atomic_store_explicit(&measuring, on, memory_order_relaxed); }

int64_t lmc_lock_longest_ns(lmc_lock *lock) {
    pthread_mutex_lock(&lock->mutex);
    int64_t longest = lock->longest_ns;
    lock->longest_ns = 0;
    pthread_mutex_unlock(&lock->mutex);
    return longest;
}

void lmc_cond_init(lmc_cond *cond) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&cond->cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

void lmc_cond_fini(lmc_cond *cond) { pthread_cond_destroy(&cond->cond); }

void lmc_cond_wait(lmc_cond *cond, lmc_lock *lock) {
    check_held(lock);
    end_hold(lock);
    pthread_cond_wait(&cond->cond, &lock->mutex);
    start_hold(lock);
}

bool lmc_cond_wait_until(lmc_cond *cond, lmc_lock *lock, int64_t deadline_ns) {
    check_held(lock);
    end_hold(lock);
    if (deadline_ns < 0)
        deadline_ns = 0;
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / LMC_NS_PER_S),
                             .tv_nsec = (long)(deadline_ns % LMC_NS_PER_S)};
    int result = pthread_cond_timedwait(&cond->cond, &lock->mutex, &until);
    start_hold(lock);
    return result != ETIMEDOUT;
}

void lmc_cond_signal(lmc_cond *cond) { pthread_cond_signal(&cond->cond); }
void lmc_cond_broadcast(lmc_cond *cond) { pthread_cond_broadcast(&cond->cond); }
