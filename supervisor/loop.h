/*
 * Event loop: epoll over watches that their owners embed, never heap objects.
 *
 * A watch stays valid memory for as long as its loop runs, so that an event that was fetched before
 * its descriptor was closed finds fd -1 and is dropped. One thread.
 */
#pragma once

#include <stdint.h>
#include <sys/epoll.h>

#include "lib/err.h"

typedef void (*loop_event_fn)(void *ctx, uint32_t events);

struct watch {
    int fd; /* -1: not watched; the owner closes it */
    uint32_t events;
    loop_event_fn on_event;
    void *ctx; /* borrowed, outlives the watch */
};

#define WATCH_NONE ((struct watch){.fd = -1})

struct loop {
    int epoll_fd;
};

/* ERR_IO. */
int loop_init(struct loop *l, struct err *e) MUST_CHECK;
void loop_done(struct loop *l);

/* Starts watching fd. on_event and ctx are set before. ERR_IO (no memory for it, for example):
 * nothing is watched. */
int loop_add(struct loop *l, struct watch *w, int fd, uint32_t events, struct err *e) MUST_CHECK;
/* Other events. 0 leaves only one report of a hang-up or an error, so that a paused peer cannot
 * spin the loop. */
void loop_change(struct loop *l, struct watch *w, uint32_t events);
/* Stops watching and closes the descriptor. Accepts one that is not watched. */
void loop_close(struct loop *l, struct watch *w);

/* Waits up to timeout_ms (-1: for ever) and hands out what came. */
void loop_wait(struct loop *l, int timeout_ms);
