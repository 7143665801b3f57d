/*
 * The connection to sandboxd: dials for ever, says hello, sends and receives records.
 *
 * Nothing is queued while it is down: `up` runs after every hello, and whoever needs something says
 * it again there. Main thread.
 */
#pragma once

#include <stdbool.h>

#include "lib/buf.h"
#include "lib/record.h"

struct broker;

struct broker_events {
    /* Both sides said hello. */
    void (*up)(void *ctx);
    void (*down)(void *ctx);
    /* Borrowed until it returns. */
    void (*record)(void *ctx, const struct record *r);
};

/* role "preview" or "credentials". Lives as long as the process; events are kept. */
struct broker *broker_open(const char *data_dir, const char *role,
                           const struct broker_events *events, void *ctx);
bool broker_is_up(const struct broker *b);
/* Sends whole records; false when it is down (nothing was sent). */
bool broker_send(struct broker *b, const struct buf *frames);
