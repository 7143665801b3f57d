/*
 * Meter: what each running sandbox uses and whom the kernel killed in it, beside the host's own
 * figures. Any thread; its lock is a leaf and never held over a call of Docker.
 *
 * Must never decide what has to go: that is sandboxd's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/cgroup.h"
#include "engine/engine.h"
#include "engine/hub.h"
#include "lib/ulid.h"

struct meter;

/* Borrows the engine. Never NULL. */
struct meter *meter_new(struct engine *g);
void meter_free(struct meter *m);

/* Every event of the hub passes here first; a die is told what the kernel had to do with it. Never
 * blocks on Docker. */
void meter_take_event(struct meter *m, struct hub_event *event);

struct meter_figures {
    struct cgroup_memory memory;
    enum cgroup_kill kill; /* who ordered the last of its oom_kills */
};

/* One running container, read now. May ask Docker. ERR_NOT_FOUND, ERR_CONFLICT: it does not run. */
int meter_look(struct meter *m, const struct ulid *id, struct meter_figures *ret, struct err *e)
    MUST_CHECK;

/* Sends usage and memory records until the other side goes away or says anything. mark_bytes: near
 * that much available memory it looks often. Blocks. */
void meter_serve(struct meter *m, int fd, int stop_fd, uint64_t mark_bytes);
