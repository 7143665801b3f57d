/*
 * Heap memory that never fails for small sizes (see mem.h). Any thread.
 */
#include "lib/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static _Noreturn void mem_die(size_t size)
{
    (void)fprintf(stderr, "out of memory: %zu bytes\n", size);
    abort();
}

void *mem_alloc(size_t size)
{
    void *p = calloc(1, size ? size : 1);
    if (!p) {
        mem_die(size);
    }
    return p;
}

void *mem_calloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p) {
        mem_die(size);
    }
    return p;
}

void *mem_resize(void *old, size_t count, size_t size)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        mem_die(SIZE_MAX);
    }
    void *p = realloc(old, bytes ? bytes : 1);
    if (!p) {
        mem_die(bytes);
    }
    return p;
}

char *mem_strdup(const char *text)
{
    return mem_dup(text, strlen(text));
}

char *mem_dup(const void *bytes, size_t len)
{
    char *p = mem_alloc(len + 1);
    if (len > 0) {
        memcpy(p, bytes, len);
    }
    return p;
}

void *mem_try_alloc(size_t size)
{
    return calloc(1, size ? size : 1);
}

void mem_wipe(void *bytes, size_t len)
{
    if (len > 0) {
        explicit_bzero(bytes, len);
    }
}

void mem_free_cleanup(void *pointer_to_pointer)
{
    void *p = NULL;
    memcpy(&p, pointer_to_pointer, sizeof(p));
    free(p);
}
