/*
 * Streams into sandboxes (docs/protocols.md section 6): the standing connection, opening, the
 * verdict on how a stream ended, and the pool of idle ones.
 *
 * Callbacks never run inside a call of this file. Main thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/str.h"
#include "lib/ulid.h"
#include "proxy/wire.h"

struct stream;

enum stream_result {
    STREAM_OK,
    STREAM_REFUSED,     /* nothing listens on that port */
    STREAM_TIMEOUT,     /* nothing answered in time */
    STREAM_UNREACHABLE, /* the relay could not even try */
    STREAM_LOST,        /* the standing connection went away */
};

struct stream_events {
    /* Nothing of a request can have reached the app unless it is STREAM_OK; otherwise the stream is
     * closed already. */
    void (*opened)(void *ctx, enum stream_result result);
    void (*data)(void *ctx, struct str bytes);
    /* No more bytes. in_order: the app closed it and all its bytes are here. Close the stream. */
    void (*ended)(void *ctx, bool in_order);
    void (*drained)(void *ctx);
};

/* Starts watching run/in. `standing` runs whenever a sandbox's relay has come. */
void gate_start(const char *data_dir, void (*standing)(const struct ulid *id));
/* Whether that sandbox's relay holds its standing connection. */
bool gate_is_standing(const struct ulid *id);

/* An idle stream to that port of that run of the container, unless its last use is longer ago than
 * idle_max_ms; or NULL. */
struct stream *gate_reuse(const struct ulid *id, uint64_t generation, uint16_t port,
                          int64_t idle_max_ms, const struct stream_events *events, void *ctx);
/* Opens one; `opened` says how that went. NULL without a standing connection or with too many
 * streams open. */
struct stream *gate_open(const struct ulid *id, uint64_t generation, uint16_t port,
                         const struct stream_events *events, void *ctx);
/* Closes what idles of another generation. */
void gate_forget_idle(const struct ulid *id, uint64_t generation);

void stream_write(struct stream *s, const struct str *parts, unsigned count);
size_t stream_queued(const struct stream *s);
void stream_read(struct stream *s, bool on);
void stream_shutdown(struct stream *s);
/* The exchange is complete: keep it for the next one, for at most idle_ms. */
void stream_keep(struct stream *s, int64_t idle_ms);
/* NULL is fine. */
void stream_close(struct stream *s);
