/*
 * Growing byte buffer with a maximum that its owner chooses.
 *
 * ptr is never NULL and always terminated. Appending past max sets failed and appends nothing more;
 * check once with buf_ok. Not shared between threads.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/str.h"

struct buf {
    char *ptr; /* owned unless it is the shared empty string */
    size_t len;
    size_t cap;
    size_t max;
    bool failed;
};

/* In place; nothing is allocated before the first append. */
void buf_init(struct buf *b, size_t max);
/* Frees the memory; the buffer may be used again. */
void buf_done(struct buf *b);
/* The same for one that held a secret: its memory is overwritten first. */
void buf_wipe(struct buf *b);
/* Empties it, keeps the memory, clears failed. */
void buf_reset(struct buf *b);

void buf_add(struct buf *b, const void *bytes, size_t len);
void buf_add_str(struct buf *b, struct str s);
void buf_puts(struct buf *b, const char *text);
static inline void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list args)
    __attribute__((format(printf, 2, 0)));

/* Room for at least `want` more bytes at ptr + len; returns false (and sets failed) past max. Use
 * buf_grew after writing. */
bool buf_reserve(struct buf *b, size_t want);
void buf_grew(struct buf *b, size_t len);
/* Drops bytes at the front. */
void buf_consume(struct buf *b, size_t len);

static inline void buf_putc(struct buf *b, char c)
{
    if (!b->failed && b->len + 1 < b->cap) {
        b->ptr[b->len++] = c;
        b->ptr[b->len] = '\0';
    } else {
        buf_add(b, &c, 1);
    }
}

static inline bool buf_ok(const struct buf *b)
{
    return !b->failed;
}

/* Borrowed until the next change of the buffer. */
static inline struct str buf_str(const struct buf *b)
{
    return (struct str){b->ptr, b->len};
}

/* Moves the memory out, terminated; caller frees. The buffer is empty afterwards. */
char *buf_take(struct buf *b) __attribute__((warn_unused_result));

/* struct buf b BUF_AUTO(65536); declares and initialises, freed at scope end. */
#define BUF_AUTO(name, maximum) \
    struct buf name __attribute__((cleanup(buf_done))) = {.max = (maximum), .ptr = buf_empty_}
/* The same for what holds a secret. */
#define BUF_WIPED(name, maximum) \
    struct buf name __attribute__((cleanup(buf_wipe))) = {.max = (maximum), .ptr = buf_empty_}
extern char buf_empty_[1];
