/*
 * The standing connection to the preview proxy: it asks for streams here and is told how they
 * ended. One thread, the relay's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/buf.h"
#include "supervisor/loop.h"

typedef void (*standing_open_fn)(void *ctx, uint64_t n, uint16_t port);

struct standing {
    struct loop *loop;   /* borrowed */
    const char *boot_id; /* borrowed */
    struct watch watch;
    bool greeted; /* the proxy answered our hello */
    struct buf in;
    struct buf out;
    int64_t next_dial_ms;
    int64_t pause_ms;
    int64_t greeting_end_ms;
    standing_open_fn on_open;
    void *ctx;
};

void standing_init(struct standing *s, struct loop *loop, const char *boot_id,
                   standing_open_fn on_open, void *ctx);
/* Dials when it is due; returns the monotonic time of the next work. */
int64_t standing_tick(struct standing *s, int64_t now_ms);
/* Queues "end" or "reset" for a stream; lost with the connection, as the streams are. */
void standing_say(struct standing *s, const char *kind, uint64_t n);
/* Writes what is queued, as much as the socket takes. */
void standing_flush(struct standing *s);
