/*
 * Output ring: the last bytes a process wrote. It must never fail or grow. One thread: PID 1's.
 */
#include "supervisor/ring.h"

#include <stdlib.h>
#include <string.h>

#include "lib/mem.h"

static void ring_put(struct ring *r, struct str bytes)
{
    size_t at = (r->start + r->len) % RING_BYTES;
    size_t first = bytes.len < RING_BYTES - at ? bytes.len : RING_BYTES - at;
    size_t over = r->len + bytes.len > RING_BYTES ? r->len + bytes.len - RING_BYTES : 0;

    memcpy(r->bytes + at, bytes.ptr, first);
    memcpy(r->bytes, bytes.ptr + first, bytes.len - first);
    r->start = (r->start + over) % RING_BYTES;
    r->len = r->len + bytes.len - over;
}

void ring_add(struct ring *r, struct str bytes)
{
    if (bytes.len == 0) {
        return;
    }
    if (!r->bytes) {
        r->bytes = mem_try_alloc(RING_BYTES);
    }
    if (!r->bytes) {
        return;
    }
    if (bytes.len > RING_BYTES) {
        bytes = str_cut(bytes, bytes.len - RING_BYTES, bytes.len);
    }
    ring_put(r, bytes);
}

static char ring_at(const struct ring *r, size_t index)
{
    return r->bytes[(r->start + index) % RING_BYTES];
}

void ring_tail(const struct ring *r, size_t max, struct buf *out)
{
    size_t from = r->len > max ? r->len - max : 0;
    size_t cut = from;

    /* Begin behind a newline where one stands in the part that is kept. */
    while (cut > 0 && cut < r->len && ring_at(r, cut - 1) != '\n') {
        cut++;
    }
    if (cut >= r->len) {
        cut = from;
    }
    for (size_t i = cut; i < r->len; i++) {
        buf_putc(out, ring_at(r, i));
    }
}

void ring_clear(struct ring *r)
{
    r->start = 0;
    r->len = 0;
}

void ring_done(struct ring *r)
{
    free(r->bytes);
    *r = (struct ring){0};
}
