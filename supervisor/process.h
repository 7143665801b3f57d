/*
 * One supervised process: the web server or a worker of sandbox.yaml. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/buf.h"
#include "lib/mask.h"
#include "supervisor/machine.h"
#include "supervisor/manifest.h"
#include "supervisor/ring.h"
#include "supervisor/run.h"

#define PROCESS_TAIL_BYTES_MAX 4096 /* docs/protocols.md, section 5 */
#define PROCESS_STOP_GRACE_MS  5000

struct process {
    bool used;
    bool removed; /* leaves when it is stopped */
    char name[MANIFEST_NAME_BYTES_MAX + 1];
    char *command; /* owned */
    bool is_web;
    bool restart_after_task;
    struct machine machine;
    struct run run;
    struct watch output;        /* its stdout and stderr */
    struct mask_stream masking; /* of its output */
    struct ring ring;
    bool ended; /* exit_code and signal are of its last run */
    int exit_code;
    int signal;
    bool dirty;                  /* the control plane has not heard of the last change */
    struct process_world *world; /* borrowed */
};

/* What all processes share; the owner fills it. */
struct process_world {
    struct runs *runs;   /* borrowed */
    struct loop *loop;   /* borrowed */
    const char *app_dir; /* borrowed */
    /* Environment for a process's next start, ended by NULL; NULL without memory. The caller frees
     * with environ_free. */
    char **(*make_env)(void *ctx, const struct process *p);
    const struct mask *mask;    /* what no output may show; NULL: nothing. Borrowed */
    void (*changed)(void *ctx); /* after every change of state */
    void *ctx;
};

void process_init(struct process *p, struct process_world *world,
                  const struct manifest_process *spec, bool is_web);
/* Takes a changed command over for the next start; true when it differs. */
bool process_update(struct process *p, const struct manifest_process *spec);
/* Frees what it owns; only when its run is not active. */
void process_done(struct process *p);
/* The world has another mask from now on. */
void process_mask_changed(struct process *p);
void process_event(struct process *p, enum machine_event event);
/* Begins its end with that grace, whatever its state is. */
void process_stop(struct process *p, int64_t grace_ms);
/* Due work; returns the monotonic time of the next, INT64_MAX when none. */
int64_t process_tick(struct process *p, int64_t now_ms);
/* Appends its `process` record; false when it did not fit. */
bool process_emit(const struct process *p, struct buf *out);
/* "exited with status 1" or "was killed by signal 9" into text; "" when it never ended. */
void process_how_ended(const struct process *p, char *text, size_t size);
