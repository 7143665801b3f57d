/*
 * Line splitter. It must never hold more than one part of a line. One thread: PID 1's.
 */
#include "supervisor/lines.h"

#include <string.h>

void lines_init(struct lines *l)
{
    buf_init(&l->rest, LINES_PART_MAX);
    l->in_parts = false;
}

void lines_done(struct lines *l)
{
    buf_done(&l->rest);
    l->in_parts = false;
}

static void lines_hand_out(struct lines *l, bool part, lines_fn fn, void *ctx)
{
    fn(ctx, buf_str(&l->rest), part);
    buf_reset(&l->rest);
    l->in_parts = part;
}

/* Takes bytes without a newline; returns what did not fit into the part. */
static struct str lines_fill(struct lines *l, struct str bytes)
{
    size_t room = LINES_PART_MAX - l->rest.len;
    size_t take = bytes.len < room ? bytes.len : room;

    buf_add(&l->rest, bytes.ptr, take);
    return str_cut(bytes, take, bytes.len);
}

static void lines_piece(struct lines *l, struct str bytes, lines_fn fn, void *ctx)
{
    while (bytes.len > 0) {
        if (l->rest.len == LINES_PART_MAX) {
            lines_hand_out(l, true, fn, ctx);
        }
        bytes = lines_fill(l, bytes);
        if (!buf_ok(&l->rest)) {
            /* No memory for one part: what is held goes out, the rest of this piece is lost with
             * it. */
            lines_hand_out(l, true, fn, ctx);
            return;
        }
    }
}

void lines_feed(struct lines *l, struct str bytes, lines_fn fn, void *ctx)
{
    while (bytes.len > 0) {
        const char *end = memchr(bytes.ptr, '\n', bytes.len);
        size_t len = end ? (size_t)(end - bytes.ptr) : bytes.len;

        lines_piece(l, str_cut(bytes, 0, len), fn, ctx);
        if (!end) {
            return;
        }
        lines_hand_out(l, false, fn, ctx);
        bytes = str_cut(bytes, len + 1, bytes.len);
    }
}

void lines_end(struct lines *l, lines_fn fn, void *ctx)
{
    if (l->rest.len > 0 || l->in_parts) {
        lines_hand_out(l, false, fn, ctx);
    }
}
