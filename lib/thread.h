/*
 * Threads and locks: named threads with all signals blocked, scoped locks, condition waits on the
 * monotonic clock.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/err.h"

/* Starts a joinable thread named name (15 characters count). Aborts when the system has none left.
 */
pthread_t thread_start(const char *name, void *(*run)(void *), void *ctx);
/* A condition on the monotonic clock. */
void thread_cond_init(pthread_cond_t *cond);
/* False when the deadline passed. The mutex is held before and after. */
bool thread_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_mono_ms);

static inline void thread_unlock_cleanup(pthread_mutex_t **mutex)
{
    if (*mutex) {
        (void)pthread_mutex_unlock(*mutex);
    }
}

static inline pthread_mutex_t *thread_lock(pthread_mutex_t *mutex)
{
    (void)pthread_mutex_lock(mutex);
    return mutex;
}

#define THREAD_CAT2(a, b) a##b
#define THREAD_CAT(a, b)  THREAD_CAT2(a, b)
/* Holds a mutex until the scope ends. */
#define LOCK_GUARD(mutex)                                                                \
    __attribute__((cleanup(thread_unlock_cleanup), unused)) pthread_mutex_t *THREAD_CAT( \
        guard_, __LINE__) = thread_lock(mutex)
