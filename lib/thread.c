/*
 * Threads: named, joinable, all signals blocked.
 */
#include "lib/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* libcurl, SQLite and libgit2 stayed below 20 KiB when measured; TLS handshakes want more. */
#define THREAD_STACK_BYTES (512 * 1024)

pthread_t thread_start(const char *name, void *(*run)(void *), void *ctx)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attr;
    pthread_t thread;
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
    int failed = pthread_create(&thread, &attr, run, ctx);
    (void)pthread_attr_destroy(&attr);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        (void)fprintf(stderr, "no thread left for %s\n", name);
        abort();
    }
    (void)pthread_setname_np(thread, name);
    return thread;
}

void thread_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

bool thread_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_mono_ms)
{
    struct timespec at = {.tv_sec = (time_t)(deadline_mono_ms / 1000),
                          .tv_nsec = (long)(deadline_mono_ms % 1000) * 1000000L};
    return pthread_cond_timedwait(cond, mutex, &at) != ETIMEDOUT;
}
