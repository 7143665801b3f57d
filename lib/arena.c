/*
 * Arena: a list of blocks, bumped through. Not shared between threads.
 */
#include "lib/arena.h"

#include <stdint.h>
#include <stdio.h>

#if defined(__SANITIZE_ADDRESS__)
#    include <sanitizer/asan_interface.h>
#    define ARENA_POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#    define ARENA_UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#    define ARENA_POISON(p, n)   ((void)(p), (void)(n))
#    define ARENA_UNPOISON(p, n) ((void)(p), (void)(n))
#endif

#define ARENA_BLOCK_BYTES 4096
#define ARENA_ALIGN       16

struct arena_block {
    struct arena_block *next; /* owned */
    size_t size;
    size_t used;
    _Alignas(ARENA_ALIGN) char bytes[];
};

struct arena {
    struct arena_block *blocks; /* owned, newest first */
    size_t total;
    size_t max;
};

struct arena *arena_new(size_t max_bytes)
{
    struct arena *a = mem_alloc(sizeof(*a));
    a->max = max_bytes;
    return a;
}

static void arena_drop(struct arena_block *block)
{
    while (block) {
        struct arena_block *next = block->next;
        ARENA_UNPOISON(block->bytes, block->size);
        free(block);
        block = next;
    }
}

void arena_free(struct arena *a)
{
    if (a) {
        arena_drop(a->blocks);
        free(a);
    }
}

void arena_reset(struct arena *a)
{
    if (!a->blocks) {
        return;
    }
    /* The oldest is the smallest: one big request is not kept for ever. */
    while (a->blocks->next) {
        struct arena_block *newest = a->blocks;
        a->blocks = newest->next;
        newest->next = NULL;
        arena_drop(newest);
    }
    ARENA_POISON(a->blocks->bytes, a->blocks->size);
    a->blocks->used = 0;
    a->total = a->blocks->size;
}

static struct arena_block *arena_grow(struct arena *a, size_t size)
{
    size_t left = a->max - a->total;
    size_t want = left < ARENA_BLOCK_BYTES ? left : ARENA_BLOCK_BYTES;
    want = size > want ? size : want;
    if (want > left) {
        return NULL;
    }
    struct arena_block *block = malloc(sizeof(*block) + want);
    if (!block) {
        return NULL;
    }
    block->size = want;
    block->used = 0;
    block->next = a->blocks;
    a->blocks = block;
    a->total += want;
    ARENA_POISON(block->bytes, want);
    return block;
}

void *arena_try(struct arena *a, size_t size)
{
    if (size > SIZE_MAX - ARENA_ALIGN) {
        return NULL;
    }
    size_t padded = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    padded = padded ? padded : ARENA_ALIGN;
    struct arena_block *block = a->blocks;
    if (!block || block->size - block->used < padded) {
        block = arena_grow(a, padded);
    }
    if (!block) {
        return NULL;
    }
    char *p = block->bytes + block->used;
    block->used += padded;
    ARENA_UNPOISON(p, size);
    memset(p, 0, size);
    return p;
}

void *arena_alloc(struct arena *a, size_t size)
{
    void *p = arena_try(a, size);
    if (!p) {
        (void)fprintf(stderr, "arena is full: %zu of %zu bytes, %zu more asked for\n", a->total,
                      a->max, size);
        abort();
    }
    return p;
}

const char *arena_strdup(struct arena *a, const char *text)
{
    return arena_str(a, str_of(text));
}

const char *arena_str(struct arena *a, struct str s)
{
    char *p = arena_alloc(a, s.len + 1);
    if (s.len > 0) {
        memcpy(p, s.ptr, s.len);
    }
    return p;
}

const char *arena_printf(struct arena *a, const char *fmt, ...)
{
    char first[256]; /* nearly everything fits and is formatted once */
    va_list args;
    va_list again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(first, sizeof(first), fmt, args);
    size_t size = len > 0 ? (size_t)len : 0;
    char *p = arena_alloc(a, size + 1);
    if (size < sizeof(first)) {
        memcpy(p, first, size);
    } else {
        (void)vsnprintf(p, size + 1, fmt, again);
    }
    va_end(again);
    va_end(args);
    return p;
}
