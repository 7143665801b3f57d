/*
 * Outbox of one task: encoded records that wait for their acknowledgement, oldest first. One
 * thread.
 *
 * Memory comes in chunks and goes back as they are acknowledged; no memory is an answer, not an
 * end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/buf.h"
#include "lib/str.h"

struct outbox_chunk;

struct outbox {
    struct outbox_chunk *first; /* owned list; NULL when empty */
    struct outbox_chunk *last;
    struct outbox_chunk *sending; /* where the next unsent frame is; NULL: nothing is unsent */
    size_t send_at;               /* offset in it */
    size_t held_bytes;
};

void outbox_init(struct outbox *o);
void outbox_done(struct outbox *o);

/* Bytes that wait for an acknowledgement. */
static inline size_t outbox_held(const struct outbox *o)
{
    return o->held_bytes;
}

/* Copies whole encoded frames in. False without memory: nothing was added. */
bool outbox_add(struct outbox *o, struct str frames);
/* The connection is new: everything unacknowledged goes out again. */
void outbox_rewind(struct outbox *o);
/* Appends unsent frames to out, whole ones only, until it holds `until` bytes. */
void outbox_emit(struct outbox *o, struct buf *out, size_t until);
/* Drops the frames whose seq is not above. */
void outbox_ack(struct outbox *o, uint64_t seq);
