/*
 * Event loop: epoll over embedded watches. It must never block longer than asked, nor call a watch
 * that was closed. One thread: PID 1's, and the relay's in its own process.
 */
#include "supervisor/loop.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"

#define LOOP_BATCH 64

int loop_init(struct loop *l, struct err *e)
{
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll_fd < 0) {
        return err_set(e, ERR_IO, errno, "make an epoll descriptor");
    }
    return 0;
}

void loop_done(struct loop *l)
{
    if (l->epoll_fd >= 0) {
        (void)close(l->epoll_fd);
    }
    l->epoll_fd = -1;
}

/* Without any wanted event a level would report a hang-up again and again: take its edge. */
static uint32_t loop_mask(uint32_t events)
{
    return events != 0 ? events : (uint32_t)EPOLLET;
}

int loop_add(struct loop *l, struct watch *w, int fd, uint32_t events, struct err *e)
{
    struct epoll_event event = {.events = loop_mask(events), .data.ptr = w};

    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        return err_set(e, ERR_IO, errno, "watch a descriptor");
    }
    w->fd = fd;
    w->events = events;
    return 0;
}

void loop_change(struct loop *l, struct watch *w, uint32_t events)
{
    struct epoll_event event = {.events = loop_mask(events), .data.ptr = w};

    if (w->fd < 0 || w->events == events) {
        return;
    }
    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, w->fd, &event) == 0) {
        w->events = events;
    }
}

void loop_close(struct loop *l, struct watch *w)
{
    int fd = w->fd;

    if (fd < 0) {
        return;
    }
    w->fd = -1;
    w->events = 0;
    (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    (void)close(fd);
}

void loop_wait(struct loop *l, int timeout_ms)
{
    struct epoll_event events[LOOP_BATCH];
    int count = epoll_wait(l->epoll_fd, events, LOOP_BATCH, timeout_ms);

    if (count < 0 && errno != EINTR) {
        /* Cannot happen with a valid descriptor; never spin if it does. */
        clock_sleep_ms(10);
    }
    for (int i = 0; i < count; i++) {
        struct watch *w = events[i].data.ptr;

        if (w->fd >= 0) {
            w->on_event(w->ctx, events[i].events);
        }
    }
}
