/*
 * Docker's stream of events, followed for ever. One thread, "events".
 *
 * Tells the hub what happens to our containers and whether Docker is up; makes the bridge again
 * when somebody removed it; keeps the walls' list of other bridges.
 */
#pragma once

#include <stdbool.h>

#include "engine/engine.h"
#include "engine/hub.h"
#include "lib/str.h"

struct events;

/* Borrows the engine. Starts the thread. Never NULL. */
struct events *events_start(struct engine *g);
void events_stop(struct events *v);

enum events_line {
    EVENTS_OTHER,
    EVENTS_CONTAINER,
    EVENTS_NETWORK
};

/* One line of the stream. EVENTS_CONTAINER: ret is filled. EVENTS_OTHER also for rubbish and other
 * people's containers. Pure. */
enum events_line events_parse_line(struct str line, const char *data_dir, struct hub_event *ret);
