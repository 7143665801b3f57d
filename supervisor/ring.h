/*
 * Output ring: the last bytes a process wrote. Full is its normal state: the oldest go. One thread.
 */
#pragma once

#include <stddef.h>

#include "lib/buf.h"
#include "lib/str.h"

#define RING_BYTES 65536

struct ring {
    char *bytes;  /* owned, RING_BYTES, made at the first byte; NULL when there is no memory: output
                     is then not kept */
    size_t start; /* where the oldest byte is */
    size_t len;
};

void ring_add(struct ring *r, struct str bytes);
/* Appends the last whole lines, at most max bytes of them (or the last max bytes of a longer line).
 */
void ring_tail(const struct ring *r, size_t max, struct buf *out);
/* Forgets the bytes, keeps the memory. */
void ring_clear(struct ring *r);
/* Frees the memory. */
void ring_done(struct ring *r);
