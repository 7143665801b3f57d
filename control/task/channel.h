/*
 * The supervisors' channel: every control.sock and its connections on one epoll thread. What
 * arrives about tasks is handed to a sink; everything else goes to the sandbox service. It never
 * waits: whether a peer is PID 1 is asked on a thread of its own.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/buf.h"
#include "lib/err.h"
#include "lib/str.h"
#include "lib/ulid.h"

struct channel;
struct db;
struct record;
struct sandbox_service;

/* Called on the channel's thread: short, without waiting. serial names the connection. */
struct channel_sink {
    /* PID 1 said hello; its "task" fields are what it knows. The record is borrowed. */
    void (*hello)(void *ctx, const struct ulid *id, uint64_t serial, const struct record *hello);
    /* started, line or exit. The frame is borrowed; its length counts until channel_consumed. */
    void (*record)(void *ctx, const struct ulid *id, uint64_t serial, struct str frame);
    void (*gone)(void *ctx, const struct ulid *id, uint64_t serial);
    void *ctx;
};

int channel_start(struct sandbox_service *sandboxes, struct db *db, const char *data_dir,
                  const struct channel_sink *sink, struct channel **ret, struct err *e) MUST_CHECK;
/* Ends its threads and closes everything; supervisors dial again. */
void channel_stop(struct channel *take_channel);

/* Any thread. Makes control.sock of a sandbox whose door directory exists; one that listens stays.
 * ERR_IO. */
int channel_listen(struct channel *c, const struct ulid *id, struct err *e) MUST_CHECK;
void channel_close(struct channel *c, const struct ulid *id);
/* Any thread. Closes that connection; the supervisor dials again and sends what was not
 * acknowledged. */
void channel_drop(struct channel *c, uint64_t serial);
/* Any thread. Queues frames for that connection; dropped when it is gone. Empties frames. */
void channel_send(struct channel *c, const struct ulid *id, uint64_t serial, struct buf *frames);
/* Any thread. The same for whoever is its supervisor now. Frames may hold secrets: they are wiped.
 */
void channel_tell(struct channel *c, const struct ulid *id, struct buf *frames);
/* Any thread: so many bytes of that connection's records were dealt with. */
void channel_consumed(struct channel *c, uint64_t serial, size_t bytes);
