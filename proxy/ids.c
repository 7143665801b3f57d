/*
 * Hash table of sandbox ids. Must never own what is in it. Main thread.
 */
#include "proxy/ids.h"

#include <stdint.h>

#include "lib/mem.h"

#define IDS_BUCKETS_MIN 64

/* FNV-1a; ids come from sandboxd, nobody else chooses them. */
static unsigned bucket_of(const struct ids *t, const struct ulid *id)
{
    uint32_t hash = 2166136261U;

    for (unsigned i = 0; i < ULID_LEN; i++) {
        hash = (hash ^ (uint8_t)id->text[i]) * 16777619U;
    }
    return (hash ^ (hash >> 15)) & (t->bucket_count - 1);
}

void ids_init(struct ids *t)
{
    t->bucket_count = IDS_BUCKETS_MIN;
    t->count = 0;
    t->buckets = mem_calloc(t->bucket_count, sizeof(*t->buckets));
}

struct ids_entry *ids_find(const struct ids *t, const struct ulid *id)
{
    struct ids_entry *e = t->buckets[bucket_of(t, id)];

    while (e && !ulid_eq(&e->id, id)) {
        e = e->next;
    }
    return e;
}

static void ids_link(struct ids *t, struct ids_entry *entry)
{
    struct ids_entry **bucket = &t->buckets[bucket_of(t, &entry->id)];

    entry->next = *bucket;
    *bucket = entry;
}

static void ids_grow(struct ids *t)
{
    struct ids_entry **old = t->buckets;
    unsigned old_count = t->bucket_count;

    t->bucket_count *= 2;
    t->buckets = mem_calloc(t->bucket_count, sizeof(*t->buckets));
    for (unsigned i = 0; i < old_count; i++) {
        for (struct ids_entry *e = old[i], *next; e; e = next) {
            next = e->next;
            ids_link(t, e);
        }
    }
    free(old);
}

void ids_add(struct ids *t, struct ids_entry *entry)
{
    if (t->count >= t->bucket_count) {
        ids_grow(t);
    }
    ids_link(t, entry);
    t->count++;
}

void ids_remove(struct ids *t, struct ids_entry *entry)
{
    struct ids_entry **at = &t->buckets[bucket_of(t, &entry->id)];

    while (*at && *at != entry) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = entry->next;
        t->count--;
    }
}

void ids_each(struct ids *t, void (*fn)(struct ids_entry *entry, void *ctx), void *ctx)
{
    for (unsigned i = 0; i < t->bucket_count; i++) {
        for (struct ids_entry *e = t->buckets[i], *next; e; e = next) {
            next = e->next;
            fn(e, ctx);
        }
    }
}
