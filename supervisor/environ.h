/*
 * Environments: built from PID 1's own (the image's), the app's settings and what we fix ourselves.
 * One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/record.h"
#include "lib/str.h"

#define ENVIRON_VARS_MAX 512

struct environ_options {
    const char *const *base;     /* PID 1's environment, ended by NULL */
    const char *const *settings; /* the app's, KEY=value, ended by NULL; win over the base */
    const char *const *config;   /* what the owner gave it, the same; NULL: nothing */
    const char *const *secrets;
    uint16_t port; /* 0: no PORT and HOST */
};

/* A list ended by NULL, or NULL without memory. The caller frees it with environ_free. */
char **environ_build(const struct environ_options *options);
/*
 * The values of one key of a record as terminated strings, ended by NULL; freed with environ_free.
 * NULL when one holds a NUL, there are more than max, or memory ends.
 */
char **environ_copy(const struct record *r, const char *key, size_t max);
/* Overwrites the strings. Accepts NULL. */
void environ_wipe(char **env);
/* Frees list and strings. Accepts NULL. */
void environ_free(char **env);
void environ_free_cleanup(char ***env);
#define ENVIRON_AUTO __attribute__((cleanup(environ_free_cleanup)))

/* Whether text is KEY=value with a key of letters, digits and _, not beginning with a digit, and no
 * NUL inside. */
bool environ_is_pair(struct str text);
