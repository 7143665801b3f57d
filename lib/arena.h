/*
 * Arena: memory that lives as long as one request or one iteration of a loop.
 *
 * Never shared between threads. Nothing that lives longer may point into it. Slack is poisoned
 * under ASan.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "lib/mem.h"
#include "lib/str.h"

struct arena;

/* A new arena that refuses to grow past max_bytes (then aborts the allocation: arena_try gives
 * NULL, arena_alloc aborts). */
struct arena *arena_new(size_t max_bytes) __attribute__((returns_nonnull, warn_unused_result));

/* Frees everything in it. Accepts NULL. */
void arena_free(struct arena *a);

/* Forgets everything in it and keeps the first block. */
void arena_reset(struct arena *a);

/* Zeroed, aligned memory; lives as long as the arena. */
void *arena_alloc(struct arena *a, size_t size) __attribute__((returns_nonnull));

/* The same, or NULL past the arena's maximum. For sizes a peer chose. */
void *arena_try(struct arena *a, size_t size);

/* Terminated copies; live as long as the arena. */
const char *arena_strdup(struct arena *a, const char *text);
const char *arena_str(struct arena *a, struct str s);
const char *arena_printf(struct arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

AUTO_DEFINE(arena, arena_free);
