/*
 * Growing byte buffer with a maximum. Not shared between threads.
 */
#include "lib/buf.h"

#include <stdio.h>

#include "lib/mem.h"

#define BUF_FIRST_BYTES 64

char buf_empty_[1];

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.ptr = buf_empty_, .max = max};
}

void buf_done(struct buf *b)
{
    if (b->cap > 0) {
        free(b->ptr);
    }
    buf_init(b, b->max);
}

void buf_wipe(struct buf *b)
{
    if (b->cap > 0) {
        mem_wipe(b->ptr, b->cap);
    }
    buf_done(b);
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->cap > 0) {
        b->ptr[0] = '\0';
    }
}

static void buf_grow_to(struct buf *b, size_t need)
{
    size_t cap = b->cap ? b->cap : BUF_FIRST_BYTES;
    while (cap < need) {
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    }
    cap = cap > b->max + 1 ? b->max + 1 : cap;
    b->ptr = mem_resize(b->cap ? b->ptr : NULL, cap, 1);
    b->cap = cap;
    b->ptr[b->len] = '\0';
}

bool buf_reserve(struct buf *b, size_t want)
{
    if (b->failed || want > b->max || b->len > b->max - want) {
        b->failed = true;
        return false;
    }
    if (b->len + want + 1 > b->cap) {
        buf_grow_to(b, b->len + want + 1);
    }
    return true;
}

void buf_grew(struct buf *b, size_t len)
{
    b->len += len;
    b->ptr[b->len] = '\0';
}

void buf_add(struct buf *b, const void *bytes, size_t len)
{
    if (len > 0 && buf_reserve(b, len)) {
        memcpy(b->ptr + b->len, bytes, len);
        buf_grew(b, len);
    }
}

void buf_add_str(struct buf *b, struct str s)
{
    buf_add(b, s.ptr, s.len);
}

void buf_puts(struct buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

/* Into the room that is there; only what does not fit is printed twice. */
void buf_vprintf(struct buf *b, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    size_t room = b->failed ? 0 : b->cap - b->len;
    int len = vsnprintf(room ? b->ptr + b->len : NULL, room, fmt, args);
    if (room > 0) {
        b->ptr[b->len] = len >= 0 && (size_t)len < room ? b->ptr[b->len] : '\0';
    }
    if (len > 0 && (size_t)len < room) {
        b->len += (size_t)len;
    } else if (len > 0 && buf_reserve(b, (size_t)len)) {
        (void)vsnprintf(b->ptr + b->len, (size_t)len + 1, fmt, again);
        buf_grew(b, (size_t)len);
    }
    va_end(again);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    buf_vprintf(b, fmt, args);
    va_end(args);
}

void buf_consume(struct buf *b, size_t len)
{
    len = len < b->len ? len : b->len;
    if (len == 0) {
        return;
    }
    b->len -= len;
    memmove(b->ptr, b->ptr + len, b->len + 1);
}

char *buf_take(struct buf *b)
{
    char *taken = b->cap > 0 ? b->ptr : mem_dup("", 0);
    buf_init(b, b->max);
    return taken;
}
