/*
 * What a grant is good for: providers, their keys and paths. Main thread.
 *
 * Shared by the grant and by the requests that use it: a renewed answer does not change what runs.
 */
#pragma once

#include <stdbool.h>

#include "lib/mask.h"
#include "lib/record.h"
#include "lib/str.h"
#include "proxy/limits.h"
#include "proxy/model_answer.h"

struct grant_path {
    char *line; /* owned, "METHOD /pattern" */
    char *cost; /* owned; member of the answer that names the cost in USD, or NULL */
    enum model_format format;
    bool is_metered; /* costs something: admitted first, its spend is told */
};

struct grant_provider {
    struct grant_provider *next;
    char *name, *base_url, *header, *prefix; /* owned; header "": no key is sent */
    char *key;                               /* owned, wiped */
    struct mask *mask;                       /* owned; takes the key out of answers */
    char *message;                           /* owned; why it cannot be used */
    bool must_reconnect;
    char *extras[LIMIT_GRANT_EXTRAS]; /* owned, "name: value" */
    struct grant_path paths[LIMIT_GRANT_PATHS];
    unsigned extra_count, path_count;
};

struct grant_keys {
    unsigned users;
    struct grant_provider *first; /* owned */
};

/* From a "grant" record. The caller is the first user. */
struct grant_keys *grant_keys_read(const struct record *r);
struct grant_keys *grant_keys_keep(struct grant_keys *k);
/* The last user wipes and frees it. NULL is fine. */
void grant_keys_drop(struct grant_keys *k);
/* NULL when the task may not use it. Borrowed. */
const struct grant_provider *grant_keys_find(const struct grant_keys *k, struct str name);
/* The path that allows this request, or NULL. Borrowed. */
const struct grant_path *grant_provider_path(const struct grant_provider *p, struct str method,
                                             struct str path);
