/*
 * Line splitter: bytes of a pipe into lines of at most LINES_PART_MAX bytes; longer ones come in
 * parts. One thread.
 */
#pragma once

#include <stdbool.h>

#include "lib/buf.h"
#include "lib/str.h"

#define LINES_PART_MAX 60000 /* docs/protocols.md, section 5 */

/* line is borrowed for the call; part: more of the same line follows. */
typedef void (*lines_fn)(void *ctx, struct str line, bool part);

struct lines {
    struct buf rest; /* the line that has no end yet */
    bool in_parts;   /* a part of it was handed out */
};

void lines_init(struct lines *l);
void lines_done(struct lines *l);
void lines_feed(struct lines *l, struct str bytes, lines_fn fn, void *ctx);
/* The stream is over: hands out a last line that has no newline. */
void lines_end(struct lines *l, lines_fn fn, void *ctx);
