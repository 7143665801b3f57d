/*
 * Sandboxes as Docker containers: made, started, stopped, removed. Any thread; calls block. One
 * sandbox, one change at a time is the caller's duty; two at once end in one of Docker's errors,
 * never in a second container.
 */
#pragma once

#include "engine/engine.h"
#include "engine/inspect.h"
#include "engine/spec.h"
#include "lib/buf.h"
#include "lib/err.h"

#define CONTAINER_LOGS_BYTES 16384

/* Makes the container unless one with today's spec is there; removes one that is not today's,
 * unless it runs (then it is left alone and answered). ERR_UNAVAILABLE walls, runtime or image
 * missing; ERR_FORBIDDEN a mount source is wrong. */
int container_create(struct engine *g, const struct spec_request *request, struct inspect *ret,
                     struct err *e) MUST_CHECK;
/* Idempotent. Checks walls and mount sources again. ERR_NOT_FOUND no container. */
int container_start(struct engine *g, const struct ulid *id, struct inspect *ret, struct err *e)
    MUST_CHECK;
/* Idempotent; TERM, then KILL after the grace. */
int container_stop(struct engine *g, const struct ulid *id, uint64_t grace_s, struct inspect *ret,
                   struct err *e) MUST_CHECK;
/* Idempotent, by force. */
int container_remove(struct engine *g, const struct ulid *id, struct err *e) MUST_CHECK;

/* Is it what container_create would make today out of its own request? False also when that cannot
 * be told. */
bool container_is_current(struct engine *g, const struct inspect *container);

/* The last lines of its own output. Appends at most CONTAINER_LOGS_BYTES. ERR_NOT_FOUND. */
int container_logs(struct engine *g, const struct ulid *id, struct buf *out, struct err *e)
    MUST_CHECK;
/* Takes the engine's frames (8 bytes of head each) apart. Appends. A broken frame ends it. Pure. */
void container_logs_demux(struct str frames, struct buf *out);

/* Calls fn for every container of this instance until it returns non-zero, and returns that; of
 * each it knows id, container_id and state. One exchange however many there are. -1 with the
 * engine's words. */
int container_each(struct engine *g,
                   int (*fn)(const struct inspect *container, void *ctx, struct err *e), void *ctx,
                   struct err *e) MUST_CHECK;
