/*
 * Run: one program below its runner, as PID 1 sees it. Used for web process, workers, tasks and the
 * seeding of an app.
 *
 * A run is over only when nothing is left below its runner. A runner that was killed from inside
 * the sandbox does not change that: what it leaves behind falls to PID 1 as unknown children, and
 * those are killed. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/err.h"
#include "supervisor/loop.h"

#define RUNS_MAX 128

struct run;

struct run_options {
    const char *cwd;         /* "" stays where PID 1 is */
    const char *const *argv; /* the program's own, ended by NULL */
    const char *const *envp; /* ended by NULL; exactly this */
    int fds[3];              /* as struct spawn has them. Borrowed */
};

struct run_hooks {
    void (*on_started)(void *ctx);          /* run->pid is known */
    void (*on_gone)(void *ctx, bool stuck); /* over; run->status is the program's wait status */
    void *ctx;
};

struct run {
    struct run_hooks hooks;
    struct loop *loop; /* borrowed */
    struct watch control;
    pid_t runner; /* 0: not active */
    pid_t pid;    /* of the program; 0 until known */
    int status;   /* wait status of the program, or 9 (killed) when its runner was lost */
    bool exited;
    bool said_gone;
    bool loose;         /* orphans of it fall to PID 1, see RUNNER_LOOSE */
    uint64_t started;   /* of a loose one's runner, in clock ticks: its orphans are younger */
    bool reported;      /* on_gone was called; the runner may still be trying */
    bool orphaned;      /* the runner is dead, its leftovers are being killed */
    int64_t give_up_ms; /* monotonic: then the runner itself is killed; 0: never */
};

struct runs {
    struct loop *loop; /* borrowed */
    struct run *active[RUNS_MAX];
    size_t count;
    pid_t helper;         /* a child that is no run (the relay); 0: none */
    int64_t sweep_at_ms;  /* next look for leftovers; 0: none due */
    int64_t sweep_end_ms; /* then they count as stuck */
};

void runs_init(struct runs *rs, struct loop *loop);
/* Starts it. *r is zeroed but for hooks, and stays valid until on_gone. ERR_UNAVAILABLE, ERR_LIMIT.
 */
int run_start(struct runs *rs, struct run *r, const struct run_options *options, struct err *e)
    MUST_CHECK;

static inline bool run_is_active(const struct run *r)
{
    return r->runner != 0;
}

/* TERM to the whole tree now, KILL after the grace. May be called again with a shorter grace. Never
 * blocks. */
void run_stop(struct run *r, int64_t grace_ms);
/* A child of PID 1 ended. True when it was a runner. */
bool runs_reaped(struct runs *rs, pid_t pid);
/* Work that is due; returns the monotonic time of the next, INT64_MAX when none. */
int64_t runs_tick(struct runs *rs, int64_t now_ms);
