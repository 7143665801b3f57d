/*
 * Heap memory: small allocations abort, sizes chosen by a peer may fail.
 *
 * mem_* never return NULL: a program that cannot get a few hundred bytes is restarted by Docker,
 * and SQLite is crash-safe. mem_try_* are for sizes that came from outside. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdlib.h>

/* Memory of that many bytes, zeroed. Caller owns; free() it. */
void *mem_alloc(size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));

/* count * size bytes, zeroed; aborts on overflow. Caller owns. */
void *mem_calloc(size_t count, size_t size)
    __attribute__((malloc, returns_nonnull, warn_unused_result));

/* Grows or shrinks an array to count * size bytes; new bytes are not zeroed. Consumes old. */
void *mem_resize(void *old, size_t count, size_t size)
    __attribute__((returns_nonnull, warn_unused_result));

/* Copy of a terminated string. Caller owns. */
char *mem_strdup(const char *text) __attribute__((malloc, returns_nonnull, warn_unused_result));

/* Copy of len bytes, terminated. Caller owns. */
char *mem_dup(const void *bytes, size_t len)
    __attribute__((malloc, returns_nonnull, warn_unused_result));

/* Zeroed memory, or NULL. For sizes a peer chose. Caller owns. */
void *mem_try_alloc(size_t size) __attribute__((malloc, warn_unused_result));

/* Overwrites memory that held a secret; not optimised away. */
void mem_wipe(void *bytes, size_t len);

void mem_free_cleanup(void *pointer_to_pointer);

/* char *x AUTOFREE = …; freed when the scope ends, unless moved out with TAKE. */
#define AUTOFREE __attribute__((cleanup(mem_free_cleanup)))

/* Moves a pointer out of a variable with cleanup: the variable becomes NULL. */
#define TAKE(p)                                \
    __extension__({                            \
        __typeof__(p) *take_at_ = &(p);        \
        __typeof__(p) take_value_ = *take_at_; \
        *take_at_ = NULL;                      \
        take_value_;                           \
    })

/* Defines NAME_cleanup for struct NAME pointers, for AUTO(NAME). */
#define AUTO_DEFINE(type, free_fn)                      \
    static inline void type##_cleanup(struct type **p_) \
    {                                                   \
        if (*p_) {                                      \
            free_fn(*p_);                               \
        }                                               \
    }                                                   \
    _Static_assert(1, "")

/* struct foo *x AUTO(foo) = foo_new(); */
#define AUTO(type) __attribute__((cleanup(type##_cleanup)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
