/*
 * The table of sandboxes in memory, private to control/sandbox/. One mutex guards all of it; never
 * held across I/O.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "control/sandbox/engine_client.h"
#include "control/sandbox/idle.h"
#include "control/sandbox/sandbox.h"
#include "control/store/apps.h"

#define TABLE_BUCKETS      1024
#define TABLE_TOMBSTONE_MS 120000
#define TABLE_PRESETS_MAX  32

/* Reasons of a stop that mean something here; any other word is for the event alone. */
#define STOP_IDLE   "idle"   /* withdrawn when somebody comes */
#define STOP_PERSON "api"    /* always_on leaves it stopped */
#define STOP_MEMORY "memory" /* waits for nobody */
#define STOP_DISK   "disk"

#define START_ALWAYS_ON "always_on"

/* The host's memory as the engine last said it. */
struct memory_figures {
    int64_t total_bytes; /* 0: not known */
    int64_t available_bytes;
    int64_t low_bytes;      /* below it idle and watched ones are stopped; 0: off */
    int64_t critical_bytes; /* below it the host is about to die */
    bool stalled;           /* programs wait for memory, says the kernel */
    int64_t at_ms;          /* monotonic */
};

enum sandbox_want {
    WANT_NOTHING,
    WANT_RUN,
    WANT_STOP,
    WANT_DELETE,
    WANT_FORGET
};

struct sandbox {
    struct sandbox *next; /* in its bucket */
    struct ulid id;
    struct ulid app_id;
    char app_name[129];
    char image[64];
    const struct sandbox_preset
        *preset; /* borrowed from the service; may be NULL for a preset that is gone */
    uint16_t ports[SANDBOX_PORTS_MAX];
    size_t port_count;
    uint16_t web_port;
    uint32_t uid; /* base + number */
    int64_t memory_bytes;
    bool is_private;      /* the app's preview access */
    int64_t access_epoch; /* what a pass must name */
    int64_t generation;
    int64_t usual_start_ms;

    enum sandbox_status status;
    bool creating; /* a start that fails keeps nothing */
    bool gone;     /* a tombstone: only sandbox_outcome sees it */
    int64_t gone_ms;

    /* What is asked for, and who works on it. An attempt is named by its ticket. */
    enum sandbox_want want;
    bool working;
    int64_t order;    /* first come, first served */
    int64_t retry_ms; /* monotonic: not before */
    int64_t ticket;
    int64_t done_ticket;
    struct err outcome;
    int64_t failed_ms; /* monotonic time of the last failed start, 0: none */
    char reason[32];

    /* What its supervisor says. */
    bool connected;
    bool takes_config; /* it knows what to do with one */
    char boot_id[64];
    char phase[16];
    char detail[512];
    uint16_t open[SANDBOX_PORTS_MAX + 1];
    size_t open_count;
    uint16_t other_port;
    int64_t config_version; /* in force there, -1: not known */
    int64_t config_wanted;  /* a person applied it: the next hello brings it, should it be lost */
    struct sandbox_process *processes; /* owned, SANDBOX_PROCESSES_MAX when there */
    size_t process_count;

    /* Use. */
    struct idle idle;
    struct ask ask;
    struct keeper keeper;
    int holds;
    int64_t open_connections;
    int64_t last_active_ms; /* monotonic */
    int64_t noted_active_ms;
    int64_t started_ms;       /* monotonic: begin of the last start */
    int task_holds;           /* of holds: those of tasks */
    int64_t watched_until_ms; /* monotonic: a console shows it */
    int64_t measured_ms;      /* monotonic: last disk measure */

    /* Memory. */
    int64_t queued_ms;       /* monotonic: since when its start waits for memory, 0: it does not */
    int64_t reserved_bytes;  /* what its start was promised, 0: nothing */
    int64_t reserved_ms;     /* monotonic: when */
    int64_t resident_bytes;  /* real use, last reading of this run */
    int64_t limit_bytes;     /* as the container has it, 0: not known */
    int64_t peak_bytes;      /* of this run */
    int64_t last_peak_bytes; /* of the run before, 0: none */
    int64_t oom_kills;       /* of this run, as far as noted */
    int64_t kill_ms;         /* monotonic: the last of them */

    /* Why it was stopped, or what the kernel killed in it; code ERR_NONE: nothing. As in its row.
     */
    struct err trouble;
    char last_end[32]; /* tag of what ended the run before, "" for an ordinary stop */

    /* Disk: the last whole measure from before the disk was low (-1: none), what the files were
     * when it was stopped for them (0: it was not), and why it is being stopped (owned; NULL: as
     * usual).
     */
    int64_t disk_bytes;
    int64_t disk_ms; /* monotonic */
    int64_t filled_bytes;
    int64_t filled_growth;
    struct err *stop_why;
    bool is_down; /* its container ended; the rest of that stop is ours */

    int64_t change; /* number of its last change, for the broker */
};

/* Connections to the engine that tell for ever. */
enum service_stream {
    SERVICE_FOLLOW,
    SERVICE_PRESSURE,
    SERVICE_STREAMS
};

struct sandbox_service {
    const struct config *config;
    struct db *db;
    struct vault *vault; /* signs passes */
    struct tickets *tickets;
    struct engine_client *engine;
    struct sandbox_channel_hooks hooks;
    struct sandbox_preset presets[TABLE_PRESETS_MAX];
    size_t preset_count;
    char init_version[17];

    pthread_mutex_t policy_lock; /* taken before `lock`: rows and table change together */
    pthread_mutex_t lock;        /* everything below, and every struct sandbox */
    pthread_cond_t work;
    struct sandbox *buckets[TABLE_BUCKETS];
    size_t count;
    int64_t next_order;
    int64_t next_change;
    unsigned proxies;      /* preview proxies that are connected, a bit each */
    int64_t proxy_left_ms; /* monotonic: when one was lost, or our start */
    int64_t next_ask;
    bool reconciled;        /* the engine was asked since it is up */
    int64_t access_changes; /* how many changes of access are in the table */

    struct sandbox_disk disk; /* as last looked at */

    struct sandbox_engine_status engine_status; /* cached */
    int64_t engine_status_ms;

    struct memory_figures memory;
    size_t start_slots; /* starts at once: about one per core */

    atomic_bool stopping;
    pthread_cond_t stop;          /* told when it stops */
    pthread_cond_t changed;       /* told at each change of the table */
    int streams[SERVICE_STREAMS]; /* borrowed; -1: none */
    int broker_wake_fd;
    pthread_t threads[16];
    size_t thread_count;
};

/* All want the lock held. */
struct sandbox *table_find(struct sandbox_service *s,
                           const struct ulid *id); /* tombstones included */
struct sandbox *table_live(struct sandbox_service *s,
                           const struct ulid *id); /* NULL for tombstones */
/* name and access are the app's. */
/* Hangs it into its bucket. */
void table_put(struct sandbox_service *s, struct sandbox *b);
struct sandbox *table_add(struct sandbox_service *s, const struct sandbox_row *row,
                          const struct app_row *app, const struct sandbox_preset *preset);
/* What the owner said about its sleep, from the rows. */
void table_set_policy(struct sandbox *b, const struct app_row *app, const struct sandbox_row *row);
void table_bury(struct sandbox_service *s, struct sandbox *b);
/* Frees tombstones that are old enough. */
void table_sweep(struct sandbox_service *s);
struct sandbox *table_each(struct sandbox_service *s, size_t *bucket, struct sandbox *after);
/* Marks a change for the broker and wakes it. */
void table_changed(struct sandbox_service *s, struct sandbox *b);
/* Forgets everything its supervisor said. */
void table_clear_reports(struct sandbox *b);

/* Without the lock: kicks the streams of the sandbox and tells the hook. */
void table_announce(struct sandbox_service *s, const struct ulid *id);

/* ---- between the files of this room ---- */

int presets_load(struct sandbox_service *s, struct err *e) MUST_CHECK;

enum job_result {
    JOB_DONE,
    JOB_FAILED,
    JOB_LATER,
    JOB_QUEUED,   /* a start that waits for memory */
    JOB_WITHDRAWN /* a stop that was not begun: somebody wants it */
};

/* A job's stop, on a thread of jobs.c; b is its copy. */
enum job_result stop_run(struct sandbox_service *s, const struct sandbox *job, struct err *e);
/* Somebody starts it: that a person stopped it counts no more. On disk and in the table. */
int stop_forget_person(struct sandbox_service *s, const struct ulid *id, struct err *e) MUST_CHECK;
/* Status in the table, announced; takes the lock. */
void jobs_set(struct sandbox_service *s, const struct ulid *id, enum sandbox_status status);

/* Sleeps, not longer than until the service stops. Without the lock. */
void service_pause(struct sandbox_service *s, int64_t ms);
/* A connection that is read without a deadline: the service's stop breaks it. fd -1 before it is
 * closed. Without the lock. */
void service_stream(struct sandbox_service *s, enum service_stream which, int fd);

/* Threads. */
void *jobs_run_starts(void *service);
void *jobs_run_others(void *service);
/* A run is over: keeps its peak of memory, and why it ended (code ERR_NONE: an ordinary stop). */
void jobs_note_end(struct sandbox_service *s, const struct ulid *id, const struct err *why);
void *follow_run(void *service);
void *reaper_run(void *service);
void *disk_run(void *service);
void *broker_run(void *service);
int broker_listen(struct sandbox_service *s, struct err *e) MUST_CHECK;
void broker_wake(struct sandbox_service *s);

/* Typed calls of the engine; block up to their deadline. */
struct engine_container {
    char state[16];
    int64_t exit_code;
    bool oom;
    bool spec_current;
    char error[512];
};

int engine_create(struct sandbox_service *s, const struct sandbox *b, struct err *e) MUST_CHECK;
int engine_start(struct sandbox_service *s, const struct ulid *id, struct err *e) MUST_CHECK;
int engine_stop(struct sandbox_service *s, const struct ulid *id, int grace_s,
                struct engine_container *ret, struct err *e) MUST_CHECK;
int engine_remove(struct sandbox_service *s, const struct ulid *id, struct err *e) MUST_CHECK;
int engine_inspect(struct sandbox_service *s, const struct ulid *id, struct engine_container *ret,
                   struct err *e) MUST_CHECK;
int engine_usage(struct sandbox_service *s, const struct ulid *id, int64_t *ret_memory,
                 struct err *e) MUST_CHECK;
int engine_fetch_status(struct sandbox_service *s, struct sandbox_engine_status *ret, struct err *e)
    MUST_CHECK;
/* Calls fn with each container of ours: id, state. */
int engine_list(struct sandbox_service *s,
                void (*fn)(void *ctx, const struct ulid *id, struct str state), void *ctx,
                struct err *e) MUST_CHECK;

/* Admission of a start: memory for it is set aside. */
enum admit {
    ADMIT_YES,
    ADMIT_WAIT, /* detail says for what; ask again in ADMIT_AGAIN_MS */
    ADMIT_NO,   /* e: ERR_UNAVAILABLE tagged no_memory with both figures */
};

#define ADMIT_AGAIN_MS 100
/* May stop idle sandboxes to make room. Not under the lock. */
enum admit admit_start(struct sandbox_service *s, const struct ulid *id, char *detail, size_t size,
                       struct err *e);
/* A start that could never fit, whatever else stops. Figures that are not known refuse nothing. */
int admit_check(struct sandbox_service *s, int64_t need_bytes, struct err *e) MUST_CHECK;
/* Under the lock. What the start of b needs. */
int64_t admit_need(const struct sandbox *b);

/* Whom a config goes to. */
struct config_target {
    struct ulid app;
    bool takes_config;
    int64_t in_force; /* -1: a boot that has none yet */
    int64_t wanted;   /* another one, but 0: all of it is sent; else what no output may show */
};

/* Adds it to a `configure` record. *ret_sent: the version, when all of it is sent, else -1. Not
 * under the lock; the caller wipes the record's buffer. */
int config_add(struct sandbox_service *s, const struct config_target *t, struct record_writer *w,
               int64_t *ret_sent, struct err *e) MUST_CHECK;
/* Under the lock: the rest of that record. */
void reports_configure(const struct sandbox_service *s, const struct sandbox *b,
                       struct record_writer *w);

/* Thread: the host's memory, what each sandbox uses, and who has to go. */
void *pressure_run(void *service);
/* Under the lock: asks for the end of one because of memory. for_start: another one's start. */
void pressure_stop(struct sandbox_service *s, struct sandbox *b, bool for_start);

/* The kernel killed a process of a running sandbox, at its own limit or because the host had no
 * memory left (killed_by "host"). Stores and tells. */
void kills_note(struct sandbox_service *s, const struct ulid *id, int64_t kills,
                struct str killed_by);
/* A process of its app ended because Node's own heap was full. Stores and tells. */
void kills_note_heap(struct sandbox_service *s, const struct ulid *id);
/* Why a container ended that nobody stopped. Fills e. */
void kills_death(const struct sandbox *b, const struct engine_container *c, struct str killed_by,
                 struct err *e);
/* A process of the app ended; lines are its last words. True when Node's heap was too small. */
bool kills_is_node_heap(int64_t exit_code, int64_t signal, struct str lines);
void kills_node_heap(struct err *e);

/* A start of one that was stopped because it filled the disk: refused while the disk is low, unless
 * it has fewer files now. Walks its files for up to 2 s. ERR_UNAVAILABLE tagged disk_full. */
int disk_check_start(struct sandbox_service *s, const struct sandbox *b, struct err *e) MUST_CHECK;

/* Removes the rows of an app whose deletion was begun and whose sandbox is gone. */
void app_finish_delete(struct sandbox_service *s, const struct ulid *app_id);
/* At start: goes on with the ends that a crash cut off. */
int app_resume_deletes(struct sandbox_service *s, struct err *e) MUST_CHECK;

/* An event about a sandbox with an optional JSON payload. */
void sandbox_event(struct sandbox_service *s, const char *kind, const char *severity,
                   const char *actor, const struct ulid *app_id, const struct ulid *id,
                   const char *payload);
