/*
 * The app of this sandbox: its settings from the control plane, its manifest, its seeding, its
 * processes, and the one phase that is said about all of that. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/buf.h"
#include "lib/mask.h"
#include "lib/record.h"
#include "supervisor/manifest.h"
#include "supervisor/portwatch.h"
#include "supervisor/process.h"
#include "supervisor/run.h"

#define APP_PROCESSES_MAX (1 + 2 * MANIFEST_WORKERS_MAX) /* workers that go may still be ending */
#define APP_PORT_DEFAULT  3000
#define APP_DETAIL_BYTES  512

enum app_phase {
    APP_IDLE,
    APP_SEEDING,
    APP_STARTING,
    APP_RUNNING,
    APP_FAILED
};

/* What the owner gave the app. The lists are owned and ended by NULL; NULL: none. */
struct app_config {
    bool is_given;   /* a `configure` brought it; without it processes start with none */
    int64_t version; /* told back, so that everybody knows which one is in force */
    char **vars;     /* KEY=value */
    char **secrets;  /* KEY=value, and no output may show the value */
    char **masks;    /* values that no output may show, and no process gets */
};

/* Of the control plane; the strings are owned. */
struct app_settings {
    char template_name[65];
    uint16_t web_port;
    uint16_t ports[PORTWATCH_DECLARED_MAX];
    size_t port_count;
    char **env; /* KEY=value, ended by NULL; NULL: none */
    struct app_config config;
};

/* A file as it was seen last: enough to notice a change without reading it. */
struct app_file {
    bool exists;
    int64_t mtime_ns;
    int64_t size;
    uint64_t inode;
};

struct app {
    struct loop *loop;      /* borrowed */
    struct runs *runs;      /* borrowed */
    const char *boot_id;    /* borrowed */
    const char *const *env; /* PID 1's own; borrowed */
    struct process_world world;
    struct portwatch ports;
    bool configured;
    bool stopping;
    struct app_settings settings;
    struct app_config config_before; /* of which a process that is being ended may still speak */
    char **masks_since; /* told since this one is in force; owned, as `masks`; NULL: none */
    struct mask *mask;  /* owned: of all these; NULL: none */
    struct process processes[APP_PROCESSES_MAX];
    uint16_t manifest_port;         /* 0: the manifest says none */
    char problem[APP_DETAIL_BYTES]; /* why there is no (new) manifest or no seed; "" when all is
                                       well */
    bool problem_is_failure;        /* else something is only missing */
    struct app_file seen[2];        /* sandbox.yaml and package.json as loaded */
    struct app_file pending[2];     /* as seen at the last look */
    int64_t look_ms;
    struct run seed;
    struct watch seed_output;
    struct ring seed_ring;
    enum app_phase phase;
    char detail[APP_DETAIL_BYTES];
    bool phase_dirty;
    int64_t web_started_ms; /* of the run that the ports were last looked at for */
    enum machine_state web_state;
    bool stale; /* something changed: decide the phase again before it is told */
};

void app_init(struct app *a, struct loop *loop, struct runs *runs, const char *boot_id,
              const char *const *env);
/* The control plane's word; the same settings again change nothing. ERR_INVALID: nothing was taken
 * over. */
int app_configure(struct app *a, const struct record *r, struct err *e) MUST_CHECK;
/* Starts one process anew by name, with the manifest as it is now. False when there is none of that
 * name. */
bool app_restart(struct app *a, struct str name);
/* A task ended: the manifest may be new, and some processes want to start anew. */
void app_task_ended(struct app *a);
/* Begins the end of everything but the web process, or of that too; true when nothing of it is
 * left. */
bool app_stop(struct app *a, bool web_too, int64_t grace_ms);
/* Due work; returns the monotonic time of the next. */
int64_t app_tick(struct app *a, int64_t now_ms);
void app_tell_all(struct app *a);
/* Adds `config_version` when one is in force. */
void app_add_config_version(const struct app *a, struct record_writer *w);
/* Appends `phase`, `process`, `port` and `other_port` records that are due until out holds `until`
 * bytes. */
void app_emit(struct app *a, struct buf *out, size_t until);
const char *app_phase_name(enum app_phase phase);
