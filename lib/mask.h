/*
 * Masking: takes known secret values out of text, whole or as it streams by.
 *
 * Every byte that is part of a value becomes part of one "***", however the text was cut into
 * pieces. A value of several lines is masked line by line, because that is how it is printed.
 * Values are taken as they stand: what was encoded (base64, percent) is not found. A mask never
 * changes after it was made, so any thread may use one; a stream belongs to one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/buf.h"
#include "lib/mem.h"
#include "lib/str.h"

#define MASK_MIN_BYTES   6     /* a shorter value would take every "true" and "3000" along */
#define MASK_VALUE_BYTES 32768 /* a longer value is cut there */
#define MASK_TEXT        "***"

struct mask;

/* Is there anything of that value that is masked? */
bool mask_covers(struct str value);
/* NULL when nothing is to be masked; all functions take that for a mask. Copies the values. The
 * caller frees with mask_free. */
struct mask *mask_new(const struct str *values, size_t count);
/* Wipes and frees. Accepts NULL. */
void mask_free(struct mask *take_mask);
AUTO_DEFINE(mask, mask_free);

/* Appends text without the values. */
void mask_text(const struct mask *m, struct str text, struct buf *out);
/* The same for JSON: values are looked for in what its strings mean, and JSON stays JSON. */
void mask_json(const struct mask *m, struct str json, struct buf *out);

/* Text that comes in pieces. What may be the beginning of a value waits for what follows. */
struct mask_stream {
    uint32_t state;
    bool keeps_length; /* the owner's: a '*' for each byte of a value, where lengths are promised */
    bool in_value;     /* the last byte that went out was masked */
    struct buf held;   /* may be the beginning of a value */
    struct buf marks;  /* beside each byte of it: 1 when it is part of a value */
};

void mask_stream_init(struct mask_stream *s);
/* Wipes and frees; what is held is lost. */
void mask_stream_done(struct mask_stream *s);
/* Appends what is sure. out must have room for twice the bytes and what is held. */
void mask_stream_feed(struct mask_stream *s, const struct mask *m, struct str bytes,
                      struct buf *out);
/* The text is over: appends what was held. */
void mask_stream_end(struct mask_stream *s, struct buf *out);
/* From now on another mask is used with it. */
void mask_stream_switch(struct mask_stream *s, const struct mask *next);
