/*
 * A table from sandbox id to an entry that its owner embeds as first member. Constant time. Main
 * thread.
 */
#pragma once

#include "lib/ulid.h"

struct ids_entry {
    struct ulid id;
    struct ids_entry *next;
};

struct ids {
    struct ids_entry **buckets; /* owned; entries are the caller's */
    unsigned bucket_count;      /* power of two */
    unsigned count;
};

void ids_init(struct ids *t);
/* NULL when absent. */
struct ids_entry *ids_find(const struct ids *t, const struct ulid *id);
/* The id must not be in it. */
void ids_add(struct ids *t, struct ids_entry *entry);
void ids_remove(struct ids *t, struct ids_entry *entry);
/* fn may remove (and free) the entry it is given, nothing else. */
void ids_each(struct ids *t, void (*fn)(struct ids_entry *entry, void *ctx), void *ctx);
