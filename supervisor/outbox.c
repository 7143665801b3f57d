/*
 * Outbox of one task. It must never drop what was not acknowledged. One thread: PID 1's.
 */
#include "supervisor/outbox.h"

#include <stdlib.h>
#include <string.h>

#include "lib/mem.h"
#include "lib/record.h"

#define OUTBOX_SMALL_BYTES 4096
#define OUTBOX_CHUNK_BYTES 131072 /* at least one whole frame and its prefix */

_Static_assert(OUTBOX_CHUNK_BYTES >= RECORD_FRAME_MAX + 4, "a chunk holds any frame");

struct outbox_chunk {
    struct outbox_chunk *next;
    size_t head; /* frames before it are acknowledged */
    size_t len;
    size_t cap;
    char bytes[];
};

void outbox_init(struct outbox *o)
{
    *o = (struct outbox){0};
}

void outbox_done(struct outbox *o)
{
    while (o->first) {
        struct outbox_chunk *next = o->first->next;

        free(o->first);
        o->first = next;
    }
    outbox_init(o);
}

/* The first chunk of a task is small: most tasks are acknowledged as fast as they speak. */
static struct outbox_chunk *outbox_new_chunk(struct outbox *o, size_t need)
{
    size_t cap = !o->first && need <= OUTBOX_SMALL_BYTES ? OUTBOX_SMALL_BYTES : OUTBOX_CHUNK_BYTES;
    struct outbox_chunk *chunk = mem_try_alloc(sizeof(*chunk) + cap);

    if (!chunk) {
        return NULL;
    }
    chunk->cap = cap;
    if (o->last) {
        o->last->next = chunk;
    } else {
        o->first = chunk;
    }
    o->last = chunk;
    return chunk;
}

bool outbox_add(struct outbox *o, struct str frames)
{
    struct outbox_chunk *chunk = o->last;

    if (frames.len == 0 || frames.len > OUTBOX_CHUNK_BYTES) {
        return frames.len == 0;
    }
    if (!chunk || chunk->cap - chunk->len < frames.len) {
        chunk = outbox_new_chunk(o, frames.len);
    }
    if (!chunk) {
        return false;
    }
    if (!o->sending) {
        o->sending = chunk;
        o->send_at = chunk->len;
    }
    memcpy(chunk->bytes + chunk->len, frames.ptr, frames.len);
    chunk->len += frames.len;
    o->held_bytes += frames.len;
    return true;
}

void outbox_rewind(struct outbox *o)
{
    o->sending = o->held_bytes > 0 ? o->first : NULL;
    o->send_at = o->sending ? o->sending->head : 0;
}

/* Length of the frame at an offset, prefix included; we wrote it, so it is whole. */
static size_t outbox_frame_len(const struct outbox_chunk *chunk, size_t at)
{
    const unsigned char *p = (const unsigned char *)chunk->bytes + at;

    return 4 + (((size_t)p[0] << 24) | ((size_t)p[1] << 16) | ((size_t)p[2] << 8) | p[3]);
}

/* Appends frames of one chunk; false when out is as full as wanted. */
static bool outbox_emit_chunk(struct outbox *o, struct buf *out, size_t until)
{
    struct outbox_chunk *chunk = o->sending;

    while (o->send_at < chunk->len) {
        size_t len = outbox_frame_len(chunk, o->send_at);

        if (out->len >= until || !buf_reserve(out, len)) {
            out->failed = false;
            return false;
        }
        buf_add(out, chunk->bytes + o->send_at, len);
        o->send_at += len;
    }
    return true;
}

void outbox_emit(struct outbox *o, struct buf *out, size_t until)
{
    while (o->sending && outbox_emit_chunk(o, out, until)) {
        o->sending = o->sending->next;
        o->send_at = o->sending ? o->sending->head : 0;
    }
}

static bool outbox_seq_at(const struct outbox_chunk *chunk, size_t at, size_t len,
                          uint64_t *ret_seq)
{
    struct record r;

    if (record_parse(str_n(chunk->bytes + at + 4, len - 4), &r, NULL) != 0) {
        return false;
    }
    return record_get_u64(&r, "seq", UINT64_MAX, ret_seq);
}

/* Drops acknowledged frames of the first chunk; true when nothing of it is left. */
static bool outbox_ack_chunk(struct outbox *o, uint64_t seq)
{
    struct outbox_chunk *chunk = o->first;

    while (chunk->head < chunk->len) {
        size_t len = outbox_frame_len(chunk, chunk->head);
        uint64_t front = 0;

        if (!outbox_seq_at(chunk, chunk->head, len, &front) || front > seq) {
            break;
        }
        chunk->head += len;
        o->held_bytes -= len;
    }
    if (o->sending == chunk && o->send_at < chunk->head) {
        o->send_at = chunk->head;
    }
    return chunk->head == chunk->len;
}

void outbox_ack(struct outbox *o, uint64_t seq)
{
    while (o->first && outbox_ack_chunk(o, seq)) {
        struct outbox_chunk *done = o->first;

        if (o->sending == done) {
            o->sending = done->next;
            o->send_at = done->next ? done->next->head : 0;
        }
        o->first = done->next;
        if (!o->first) {
            o->last = NULL;
        }
        free(done);
    }
}
