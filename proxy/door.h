/*
 * The listeners of all sandboxes for one role: run/<role>/<id>/<role>.sock, made and closed as the
 * directories come and go.
 *
 * Takes connections, reads their hello, hands them over. Main thread.
 */
#pragma once

#include <stdbool.h>

#include "lib/record.h"
#include "lib/ulid.h"
#include "proxy/wire.h"

struct door;

struct door_events {
    /* A connection of that sandbox said hello. Takes the wire (close it to refuse); rest are bytes
     * behind the hello. */
    void (*connected)(struct door *door, const struct record *hello, struct wire *take_wire,
                      struct str rest);
    /* The sandbox's directory is gone; the door is freed after this. */
    void (*gone)(struct door *door);
};

/* Watches data_dir/run/<role> for ever; a directory that is missing is waited for. role "in" or
 * "out". */
void door_watch(const char *data_dir, const char *role, const struct door_events *events);
const struct ulid *door_id(const struct door *door);
/* A pointer of the role's, NULL at first. */
void door_set_data(struct door *door, void *data);
void *door_data(const struct door *door);
/* NULL when there is no listener for that sandbox now. Borrowed until `gone`. */
struct door *door_find(const struct ulid *id);
/* Appends hello{protocol}. */
void door_hello(struct buf *out);
