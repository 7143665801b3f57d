/*
 * The life of a web process or worker: states, events, and the one table between them. Pure. One
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define MACHINE_FAST_MS           10000 /* a run shorter than this is a fast failure */
#define MACHINE_FAST_FAILURES_MAX 5
#define MACHINE_BACKOFF_FIRST_MS  1000
#define MACHINE_BACKOFF_MAX_MS    30000

enum machine_state {
    MACHINE_STOPPED,
    MACHINE_STARTING,   /* runs; a web process's port does not answer yet */
    MACHINE_RUNNING,    /* runs, and answers */
    MACHINE_STOPPING,   /* is being ended, for good */
    MACHINE_RESTARTING, /* is being ended, and starts again */
    MACHINE_BACKOFF,    /* ended by itself; starts again at next_start_ms */
    MACHINE_FAILED,     /* ended too often, or could not be ended */
    MACHINE_STATE_COUNT,
};

enum machine_event {
    MACHINE_START,   /* it is wanted */
    MACHINE_STOP,    /* it is not wanted any more */
    MACHINE_RESTART, /* a person or a task asks for it */
    MACHINE_READY,   /* it answers */
    MACHINE_UNREADY, /* it does not answer any more */
    MACHINE_GONE,    /* nothing of its tree is left */
    MACHINE_STUCK,   /* something of it could not be killed */
    MACHINE_TIME,    /* next_start_ms is reached */
    MACHINE_NOSTART, /* it could not be started just now */
    MACHINE_EVENT_COUNT,
};

/* What the caller does behind a step. */
enum machine_action {
    MACHINE_DO_NOTHING,
    MACHINE_DO_SPAWN,
    MACHINE_DO_END
};

struct machine {
    enum machine_state state;
    int fast_failures;
    unsigned restarts;     /* starts after the first */
    int64_t started_ms;    /* monotonic; 0: never */
    int64_t next_start_ms; /* monotonic, in BACKOFF */
};

enum machine_action machine_step(struct machine *m, enum machine_event event, int64_t now_ms);
/* As docs/protocols.md, section 5, names it. */
const char *machine_state_name(enum machine_state state);
