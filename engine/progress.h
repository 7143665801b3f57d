/*
 * Progress of an image build or pull: the engine's stream of JSON lines. No thread of its own.
 */
#pragma once

#include <stddef.h>

#include "lib/buf.h"
#include "lib/str.h"

#define PROGRESS_LINE_BYTES_MAX 65536
#define PROGRESS_STEP_BYTES     200
#define PROGRESS_TAIL_BYTES     1024
#define PROGRESS_ERROR_BYTES    400

struct progress {
    struct buf line; /* what has arrived of the next line */
    int percent;     /* 0..100 of this build */
    char step[PROGRESS_STEP_BYTES];
    char error[PROGRESS_ERROR_BYTES]; /* the engine's words; "" while all is well */
    char tail[PROGRESS_TAIL_BYTES];   /* last output of the build */
    size_t tail_len;
};

void progress_init(struct progress *p);
void progress_done(struct progress *p);
/* Takes bytes as they come; a line that is too long or no JSON is passed over. */
void progress_feed(struct progress *p, struct str bytes);
/* The last lines of output, without the ones that only name steps. Borrowed. */
struct str progress_tail(const struct progress *p);
