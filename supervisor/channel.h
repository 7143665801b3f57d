/*
 * Channel: PID 1's connection to the control plane over run/control. Dialled again for ever; what
 * was not acknowledged goes out again. docs/protocols.md, section 5. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/buf.h"
#include "supervisor/app.h"
#include "supervisor/loop.h"
#include "supervisor/task.h"

#define CHANNEL_SOCKET "/run/sandboxd/control/control.sock"

enum channel_state {
    CHANNEL_DOWN,     /* waits for next_dial_ms */
    CHANNEL_GREETING, /* said hello, waits for the answer */
    CHANNEL_UP,
};

struct channel {
    struct loop *loop;   /* borrowed */
    struct app *app;     /* borrowed */
    struct tasks *tasks; /* borrowed */
    const char *boot_id; /* borrowed */
    struct watch watch;
    enum channel_state state;
    struct buf in;
    struct buf out;
    size_t out_at; /* bytes of out that are written */
    int64_t next_dial_ms;
    int64_t pause_ms;
    int64_t greeting_end_ms;
};

void channel_init(struct channel *c, struct loop *loop, struct app *app, struct tasks *tasks,
                  const char *boot_id);
/* Dials when it is due; returns the monotonic time of the next work. */
int64_t channel_tick(struct channel *c, int64_t now_ms);
/* Tells what is to be told and writes as much as the socket takes. At the end of each turn of the
 * loop. */
void channel_flush(struct channel *c);

static inline bool channel_is_up(const struct channel *c)
{
    return c->state == CHANNEL_UP;
}

/* One record of the control plane, parsed. -1: the connection is to be closed. For the channel and
 * its fuzz target. */
int channel_handle(struct channel *c, const struct record *r);
