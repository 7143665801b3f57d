/*
 * Streams of the relay: two sockets and the bytes between them, both ways, with back-pressure and
 * half-close.
 *
 * A stream holds no memory of its own while its peers keep up: bytes pass through one shared
 * buffer. One thread, the relay's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "supervisor/loop.h"

struct stream;

/* One socket of a stream. */
struct stream_side {
    struct stream *stream; /* borrowed: the stream it is part of */
    struct watch watch;
    char *pending; /* owned: bytes that this socket did not take yet; NULL: none */
    size_t pending_at;
    size_t pending_len;
    bool read_over;  /* the peer sends no more */
    bool write_over; /* we told the peer so */
};

enum stream_end {
    STREAM_ENDED, /* the app closed in order and all its bytes were sent; the other way may go on */
    STREAM_APP_BROKE, /* the app's connection broke */
    STREAM_CLOSED,    /* over, all said */
};

struct stream_hooks {
    /* STREAM_ENDED at most once, before one of the others; the last call for a stream is never
     * STREAM_ENDED. */
    void (*on_end)(void *ctx, struct stream *s, enum stream_end end);
    void *ctx;
};

struct stream {
    const struct stream_hooks *hooks; /* borrowed */
    struct loop *loop;                /* borrowed */
    struct stream_side app;           /* towards the app: TCP */
    struct stream_side door;          /* towards the proxy: a Unix socket */
    bool open;                        /* bytes flow */
};

/* Prepares both sides; events go to on_event with the side as ctx until stream_open. */
void stream_init(struct stream *s, struct loop *loop, const struct stream_hooks *hooks,
                 loop_event_fn on_event);
/* Both sockets are connected and watched: bytes flow from now on. */
void stream_open(struct stream *s);
/* Closes both sockets and frees what waited. on_end is not called. */
void stream_close(struct stream *s);
