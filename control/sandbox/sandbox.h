/*
 * Sandboxes at run time: the table, the lifecycle, what the supervisors report, waiting for
 * outcomes.
 *
 * SQLite says what should be, Docker what is; this room keeps both together. All functions are for
 * any thread; none waits for the engine: work is done by jobs on threads of this room, callers look
 * at outcomes.
 */
#pragma once

#include "control/config.h"
#include "control/store/sandboxes.h"
#include "lib/arena.h"
#include "lib/buf.h"
#include "lib/err.h"
#include "lib/ulid.h"

struct db;
struct engine_client;
struct vault;
struct sandbox_service;

/* Key for http_kick and stream waiting: "sandbox:<id>". */
#define SANDBOX_KEY_BYTES 40
void sandbox_key(const struct ulid *id, char key[SANDBOX_KEY_BYTES]);

struct sandbox_preset {
    const char *id;
    const char *label;
    const char *description;
    const char *image;         /* name in presets/images.json */
    const char *template_name; /* folder in /opt/sandboxd/templates */
    uint16_t port;
    int64_t memory_bytes; /* what a start usually needs */
};

/* Makes directories (the database lives in one of them), installs the supervisor, loads presets,
 * opens the broker's socket. */
int sandbox_service_start(const struct config *config, struct sandbox_service **ret, struct err *e)
    MUST_CHECK;
void sandbox_service_stop(struct sandbox_service *take_service);

/* Presets, in order; static for the life of the service. */
const struct sandbox_preset *sandbox_presets(const struct sandbox_service *s, size_t *ret_count);
const struct sandbox_preset *sandbox_preset_find(const struct sandbox_service *s, struct str id);

/* ---- lifecycle ---- */

struct sandbox_create {
    struct ulid app_id;
    const char *app_name;
    const struct sandbox_preset *preset;
    uint16_t ports[SANDBOX_PORTS_MAX];
    size_t port_count;
    int64_t memory_bytes; /* 0: default */
    const char *actor;
};

/* Checks image, memory, walls and engine, inserts the row and begins the start. Asks the engine (up
 * to 5 s). Errors keep nothing: tagged image_building, no_memory, engine_unavailable, walls_down,
 * sandbox_exists. */
int sandbox_create_begin(struct sandbox_service *s, const struct sandbox_create *order,
                         struct ulid *ret_id, int64_t *ret_ticket, struct err *e) MUST_CHECK;
/* Asks for a start; joins a running one. The ticket names the attempt for sandbox_outcome.
 * ERR_NOT_FOUND, ERR_CONFLICT while it is being deleted. reason is for the event: "preview",
 * "task", "api". */
int sandbox_start(struct sandbox_service *s, const struct ulid *id, const char *reason,
                  int64_t *ret_ticket, struct err *e) MUST_CHECK;
/* Asks for a stop. */
int sandbox_stop(struct sandbox_service *s, const struct ulid *id, const char *reason,
                 int64_t *ret_ticket, struct err *e) MUST_CHECK;
/* Asks for the end: container and workspace. */
int sandbox_delete(struct sandbox_service *s, const struct ulid *id, const char *actor,
                   int64_t *ret_ticket, struct err *e) MUST_CHECK;

enum sandbox_outcome {
    SANDBOX_PENDING,
    SANDBOX_DONE,
    SANDBOX_FAILED
};
/* What became of that attempt. FAILED fills e. A sandbox that is gone: DONE. */
enum sandbox_outcome sandbox_outcome(struct sandbox_service *s, const struct ulid *id,
                                     int64_t ticket, struct err *e);

/* Ends an app: its sandbox, then its rows; goes on by itself. ERR_NOT_FOUND does not occur: ask the
 * store first. */
int app_delete(struct sandbox_service *s, const struct ulid *app_id, const char *actor,
               struct err *e) MUST_CHECK;
/* Key for http_kick when an app is gone: "app:<id>". */
void app_key(const struct ulid *id, char key[SANDBOX_KEY_BYTES]);

/* ---- access to previews ---- */

/* The app's row has another access or epoch: the table and the proxy learn of it. Reads the
 * database. */
void sandbox_access_changed(struct sandbox_service *s, const struct ulid *app_id);
/* The same for whatever changed since the last call, by us or by another program. */
void sandbox_access_sweep(struct sandbox_service *s);
/* A ticket for one visit of the preview proxy's /.sandboxd/enter, appended; session "" for an API
 * token. ERR_NOT_FOUND, ERR_INVALID for a port that is not declared. */
int sandbox_ticket(struct sandbox_service *s, const struct ulid *id, uint16_t port,
                   const char *session, struct buf *ret_ticket, struct err *e) MUST_CHECK;

/* ---- what the owner gave the app ---- */

/* Something of it was stored or deleted: sandboxes learn what their output may not show. Processes
 * keep what they have. Reads the database. */
void sandbox_config_changed(struct sandbox_service *s, const struct ulid *app);
/* Its processes start anew with what is stored. *ret_version is for sandbox_config_outcome. One
 * that sleeps gets it at its next start. ERR_NOT_FOUND, ERR_CONFLICT. Reads the database. */
int sandbox_apply_config(struct sandbox_service *s, const struct ulid *id, int64_t *ret_version,
                         struct err *e) MUST_CHECK;
/* Is that version in force, and are its processes as far as they get? */
enum sandbox_outcome sandbox_config_outcome(struct sandbox_service *s, const struct ulid *id,
                                            int64_t version);

/* ---- looking ---- */

#define SANDBOX_PROCESSES_MAX 16
#define SANDBOX_LINES_BYTES   4096

struct sandbox_process {
    char name[65];
    char type[8];
    char state[16];
    int64_t pid;
    int64_t restarts;
    int64_t exit_code;
    int64_t signal;
    int64_t ended_ms; /* monotonic: when its last end was told, 0: never */
    char lines[SANDBOX_LINES_BYTES + 1];
};

struct sandbox_view {
    struct ulid id;
    struct ulid app_id;
    enum sandbox_status status;
    bool connected;         /* its supervisor speaks */
    bool takes_config;      /* … and hands config to processes */
    int64_t config_version; /* in force there, -1: not known */
    bool is_private;        /* its app's preview access */
    char boot_id[64];
    char phase[16];
    char detail[512];
    char image[64];
    uint16_t web_port;
    uint16_t ports[SANDBOX_PORTS_MAX];
    size_t port_count;
    uint16_t open[SANDBOX_PORTS_MAX + 1];
    size_t open_count;
    uint32_t uid; /* base + number */
    int64_t generation;
    /* What it is being stopped for, or what ended the run before: "memory", "out_of_memory", … as
     * in its row; "" for an ordinary stop. */
    char end_code[32];
    int64_t kill_ms; /* monotonic: the kernel last killed a process of this run, 0: never */
    struct err kill; /* … and why */
};

/* ERR_NOT_FOUND. */
int sandbox_look(struct sandbox_service *s, const struct ulid *id, struct sandbox_view *ret,
                 struct err *e) MUST_CHECK;
/* Copies its processes into the arena. */
size_t sandbox_processes(struct sandbox_service *s, const struct ulid *id, struct arena *a,
                         struct sandbox_process **ret);
void sandbox_counts(struct sandbox_service *s, size_t *ret_running, size_t *ret_total);

/* Holds off the idle stop and the plain stop while a task, exec or terminal uses it: +1 / -1. */
void sandbox_hold(struct sandbox_service *s, const struct ulid *id, int delta);
/* The same for a task, which is worth more than what else holds it when memory runs short. */
void sandbox_hold_task(struct sandbox_service *s, const struct ulid *id, int delta);
/* A console shows its preview at this moment; to be said again every SANDBOX_WATCH_S / 2. */
#define SANDBOX_WATCH_S 60
void sandbox_watching(struct sandbox_service *s, const struct ulid *id);
/* Did its process end because Node's own heap was full? The sentence that says so in e. */
bool sandbox_is_node_heap(int64_t exit_code, int64_t signal, struct str lines, struct err *e);
/* Something used it now. */
void sandbox_touch(struct sandbox_service *s, const struct ulid *id);

/* ---- when it sleeps ---- */

/* Times are milliseconds since the epoch; 0: not, or nobody knows. */
struct sandbox_idle {
    bool always_on;
    int64_t threshold_s; /* in force; 0: it never sleeps by itself */
    bool in_use;         /* a task works in it, or somebody is connected */
    int64_t sleeps_at;   /* unless somebody uses it before */
    int64_t keep_alive_until;
    bool stays_stopped; /* always_on, and a person stopped it */
    int64_t starts_at;  /* always_on, and it is down: the next try */
};

/* ERR_NOT_FOUND. */
int sandbox_idle_look(struct sandbox_service *s, const struct ulid *id, struct sandbox_idle *ret,
                      struct err *e) MUST_CHECK;
/* Not put to sleep for so many seconds; 0 ends it. Stored before it returns. ERR_NOT_FOUND. */
int sandbox_keep_alive(struct sandbox_service *s, const struct ulid *id, int64_t seconds,
                       struct err *e) MUST_CHECK;
/* The app's row has another policy: its sandbox goes by that from now on. */
int sandbox_policy_changed(struct sandbox_service *s, const struct ulid *app_id, struct err *e)
    MUST_CHECK;

/* State of the engine for /readyz and /v1/status; cached for a second, asks otherwise. */
struct sandbox_engine_status {
    bool docker_up;
    char docker_error[512];
    char docker_version[64];
    char walls[16]; /* up, off, failed */
    char walls_error[512];
    char runtime_error[512];
    int64_t memory_default;
    int64_t mem_total;
    int64_t mem_available;
};

/* The file system of the workspaces, as the watch of every 2 s saw it last; zeros before. */
struct sandbox_disk {
    int64_t total_bytes;
    int64_t free_bytes;
    int64_t floor_bytes; /* below it, whoever fills the disk is stopped; 0: off */
    bool is_low;
};

void sandbox_disk_look(struct sandbox_service *s, struct sandbox_disk *ret);

int sandbox_engine_status(struct sandbox_service *s, struct sandbox_engine_status *ret,
                          struct err *e) MUST_CHECK;

/* State of a preset's image; build starts it when missing. */
struct sandbox_image {
    char state[16];
    char tag[128];
    int64_t percent;
    char step[256];
    char error[512];
};

int sandbox_image(struct sandbox_service *s, const char *image, bool build,
                  struct sandbox_image *ret, struct err *e) MUST_CHECK;

/* ---- what the supervisors say (called by the channel's thread) ---- */

struct record;
/* Peer check of an accepted connection by the engine; blocks up to 5 s. ERR_FORBIDDEN: another
 * process. */
int sandbox_check_peer(struct sandbox_service *s, const struct ulid *id, int fd, struct err *e)
    MUST_CHECK;
/* hello accepted: fills configure for it, with secrets in it: the caller wipes it. Reads the
 * database. */
int sandbox_connected(struct sandbox_service *s, const struct ulid *id, const struct record *hello,
                      struct buf *ret_configure, struct err *e) MUST_CHECK;
void sandbox_disconnected(struct sandbox_service *s, const struct ulid *id);
/* phase, process, port, other_port. */
void sandbox_report(struct sandbox_service *s, const struct ulid *id, const struct record *r);

/* The channel's hooks, set once before the first start: listen makes control.sock of a sandbox
 * (idempotent), close ends it. */
struct sandbox_channel_hooks {
    int (*listen)(void *ctx, const struct ulid *id, struct err *e);
    void (*close)(void *ctx, const struct ulid *id);
    /* Sends a record to its supervisor, when it is there; wipes and empties frames. */
    void (*tell)(void *ctx, const struct ulid *id, struct buf *frames);
    /* Told after each change of state, outside all locks. */
    void (*changed)(void *ctx, const struct ulid *id);
    void *ctx;
};

void sandbox_set_hooks(struct sandbox_service *s, const struct sandbox_channel_hooks *hooks);
/* Loads rows and starts the threads (jobs, broker, follow, reaper): after the hooks are set. */
int sandbox_service_run(struct sandbox_service *s, struct db *db, struct vault *vault,
                        struct err *e) MUST_CHECK;
