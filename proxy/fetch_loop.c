/*
 * Descriptors and timer of lib/fetch_multi on libuv. Must never know what is fetched. Main thread.
 */
#include "proxy/fetch_loop.h"

#include <stdlib.h>

#include "lib/mem.h"
#include "proxy/loop.h"

struct watched {
    uv_poll_t poll;
    int fd;
};

static struct {
    struct fetch_multi *multi;
    uv_timer_t timer;
} fetch;

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct watched *w = poll->data;
    unsigned what = (events & UV_READABLE ? FETCH_WATCH_READ : 0) |
                    (events & UV_WRITABLE ? FETCH_WATCH_WRITE : 0);

    /* An error is for libcurl to find out by trying. */
    fetch_multi_ready(fetch.multi, w->fd, status < 0 ? FETCH_WATCH_READ | FETCH_WATCH_WRITE : what);
}

static void watched_freed(uv_handle_t *handle)
{
    free(handle->data);
}

static void watch(void *ctx, int fd, unsigned what, void **slot)
{
    struct watched *w = *slot;

    (void)ctx;
    if (what == 0) {
        if (w) {
            (void)uv_poll_stop(&w->poll);
            uv_close((uv_handle_t *)&w->poll, watched_freed);
        }
        return;
    }
    if (!w) {
        w = mem_alloc(sizeof(*w));
        w->fd = fd;
        w->poll.data = w;
        if (uv_poll_init(loop_get(), &w->poll, fd) < 0) {
            free(w);
            return;
        }
        *slot = w;
    }
    (void)uv_poll_start(&w->poll,
                        (what & FETCH_WATCH_READ ? UV_READABLE : 0) |
                            (what & FETCH_WATCH_WRITE ? UV_WRITABLE : 0),
                        on_ready);
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
    fetch_multi_timeout(fetch.multi);
}

static void timer(void *ctx, int64_t delay_ms)
{
    (void)ctx;
    if (delay_ms < 0) {
        (void)uv_timer_stop(&fetch.timer);
    } else {
        (void)uv_timer_start(&fetch.timer, on_timer, (uint64_t)delay_ms, 0);
    }
}

struct fetch_multi *fetch_loop_get(void)
{
    static const struct fetch_multi_hooks hooks = {.watch = watch, .timer = timer};

    if (!fetch.multi) {
        (void)uv_timer_init(loop_get(), &fetch.timer);
        fetch.multi = fetch_multi_new(&hooks, NULL);
    }
    return fetch.multi;
}
