/*
 * Connections by sandbox. Must never outlive the connections that are counted. Main thread.
 */
#include "proxy/credentials_clients.h"

#include <stdlib.h>

#include "lib/mem.h"
#include "proxy/ids.h"
#include "proxy/limits.h"

struct client_count {
    struct ids_entry entry;
    unsigned count;
};

static struct ids *table(void)
{
    static struct ids clients;

    if (!clients.buckets) {
        ids_init(&clients);
    }
    return &clients;
}

bool clients_enter(const struct ulid *sandbox)
{
    struct client_count *c = (struct client_count *)ids_find(table(), sandbox);

    if (!c) {
        c = mem_alloc(sizeof(*c));
        c->entry.id = *sandbox;
        ids_add(table(), &c->entry);
    }
    if (c->count >= LIMIT_CREDENTIALS_OF_ONE) {
        return false;
    }
    c->count++;
    return true;
}

void clients_leave(const struct ulid *sandbox)
{
    struct client_count *c = (struct client_count *)ids_find(table(), sandbox);

    if (c && --c->count == 0) {
        ids_remove(table(), &c->entry);
        free(c);
    }
}
