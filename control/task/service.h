/*
 * Inside of the task service; private to control/task/. Boxes and runs belong to the scheduler's
 * thread alone; other threads leave notes in its inbox and see the list of open tasks.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "control/sandbox/sandbox.h"
#include "control/store/budgets.h"
#include "control/store/tasks.h"
#include "control/task/agent.h"
#include "control/task/channel.h"
#include "control/task/task.h"
#include "control/vault/vault.h"
#include "lib/mask.h"
#include "lib/record.h"

#define TASK_QUEUE_MAX       64    /* open tasks of one sandbox */
#define TASK_CONNECT_MS      60000 /* from running to the supervisor's hello */
#define TASK_FINISH_AFTER_MS 10000
#define TASK_CANCEL_GRACE_MS 3000
#define TASK_REFUSED_MS      15000 /* an agent may take to leave after a refusal for good */
#define TASK_OVERTIME_MS     15000 /* after the supervisor's own deadline: then ours acts */
#define TASK_ABANDON_MS      30000 /* after a cancel: then it ends without an exit */
#define TASK_STARTS_MAX      3     /* starts of a sandbox for one task */
#define TASK_ATTEMPTS_MAX    8     /* runs of an agent for one task */
#define TASK_LINE_BYTES_MAX  (4UL * 1024 * 1024)
#define TASK_NOTICES_MAX     200
#define TASK_EVENTS_MAX      20000
#define TASK_EVENT_BYTES_MAX (64UL * 1024 * 1024)
#define TASK_ERR_TAIL_BYTES  2048
#define TASK_MODEL_BYTES_MAX 200
#define TASK_KILL_WAIT_MS    1500 /* after a signal 9: for the engine's next reading */
#define RUN_MASKS_MAX        8    /* changes of what an app is given, in one task */
#define TASK_SEQ_BITS        40   /* of line_seq; the attempt stands above them */

enum run_stage {
    RUN_WAITING,   /* for its sandbox */
    RUN_PREPARING, /* its files are being written */
    RUN_RUNNING,   /* the row says running; the supervisor has it or is told of it at its next hello
                    */
};

struct prepare_job;

/* How the agent's process ended. */
struct run_exit {
    int64_t seq;
    int64_t code;
    int64_t signal;
    char cause[16];
    bool stuck;
};

/* The task of a sandbox whose turn it is. */
struct run {
    struct ulid id;
    struct ulid app_id;
    const struct agent_adapter *adapter;
    const struct vault_agent *agent;
    enum run_stage stage;
    bool stored; /* the row says running */
    char boot_id[64];
    int attempt;
    int64_t seen_seq;   /* last line of this attempt that was looked at */
    int64_t stored_seq; /* last one that was stored */
    struct agent_state state;
    struct buf line; /* parts of a long line of stdout */
    bool in_parts;
    bool too_long;      /* … which is not kept */
    bool err_in_parts;  /* the rest of a long line of stderr is left out */
    int64_t parts_from; /* seq before the first part */
    struct buf err_tail;
    struct mask *masks[RUN_MASKS_MAX]; /* owned: what its lines may not show */
    size_t mask_count;
    uint64_t masks_of; /* changes of what owners gave, 0: not looked yet */
    char *token;       /* owned; wiped */
    char *token_box;   /* owned: the same, sealed */

    char model[TASK_MODEL_BYTES_MAX + 1]; /* as given, or as chosen */
    bool given;                           /* by the person: no other one is tried */
    int model_index;                      /* in the list of free models; -1: none of it */
    bool new_session;                     /* do not go on with the last conversation */
    bool resumes;                         /* this attempt goes on with one */

    int64_t timeout_ms;
    int64_t deadline_ms; /* monotonic, 0: not started */
    bool cancel_asked;
    bool timed_out;
    int64_t refused_ms;    /* it may ask no model any more, monotonic; 0: it may */
    char refusal_code[32]; /* why: budget_reached, price_unknown; "" */
    char refusal[480];
    int64_t cancel_sent_ms;
    bool finish_sent;

    int starts;
    bool ticket_open;
    int64_t ticket;
    bool told_waking;
    int64_t connect_by_ms;

    int64_t kill_ms; /* monotonic: kills for memory up to here are told, or older than the run */
    struct err kill; /* the last one in this run */
    bool exit_waits; /* the agent's process is over; for a word of the kernel's on it */
    int64_t exit_by_ms;
    struct run_exit exit;

    int notices;
    int64_t events;
    int64_t event_bytes;
};

struct box {
    struct box *next;
    struct ulid id;
    uint64_t serial; /* connection of its supervisor, 0: none */
    char boot_id[64];
    struct run *run;         /* owned */
    struct prepare_job *job; /* at work; owned by the preparer until it comes back */
    int64_t drop_at_ms;      /* storing failed: begin anew then */
    bool restarting;         /* something of a task could not be ended */
    int64_t restart_ticket;
};

enum note_kind {
    NOTE_LOOK,
    NOTE_CANCEL,
    NOTE_REFUSED,
    NOTE_HELLO,
    NOTE_RECORD,
    NOTE_GONE,
    NOTE_PREPARED
};

struct note {
    struct note *next;
    enum note_kind kind;
    struct ulid sandbox;
    struct ulid task; /* CANCEL, REFUSED */
    uint64_t serial;
    char *bytes; /* owned: frame of HELLO and RECORD */
    size_t len;
    struct prepare_job *job; /* PREPARED: owned */
};

/* Files and arguments of one attempt. */
struct prepare_job {
    struct prepare_job *next;
    struct ulid sandbox;
    struct ulid task;
    uint32_t uid;
    struct arena *arena; /* owned; holds the run below */
    struct agent_run run;
    struct err err; /* code is ERR_NONE when all went well */
};

struct open_entry {
    struct open_entry *next;
    struct ulid id;
    struct ulid sandbox;
    bool running;
    bool cancelling;
};

struct task_service {
    const struct config *config;
    struct db *db;
    struct sandbox_service *sandboxes;
    struct vault *vault;
    struct channel *channel;
    atomic_bool stopping;
    pthread_t scheduler;
    pthread_t preparer;

    pthread_mutex_t lock; /* down to open */
    pthread_cond_t wake;
    struct note *first;
    struct note *last;
    struct prepare_job *jobs;
    struct prepare_job *jobs_last;
    pthread_cond_t work;
    struct open_entry *open; /* oldest first */

    struct task_service *next_stopped;

    struct box *boxes; /* the scheduler's own */
    int64_t due_ms;
};

/* ---- service.c: any thread ---- */
void service_post(struct task_service *s, struct note *take_note);
void service_look(struct task_service *s, const struct ulid *sandbox);
void service_open_add(struct task_service *s, const struct ulid *id, const struct ulid *sandbox,
                      bool running);
void service_open_running(struct task_service *s, const struct ulid *id);
void service_open_remove(struct task_service *s, const struct ulid *id);
/* The running task of a sandbox, else its oldest. False: none. */
bool service_open_first(struct task_service *s, const struct ulid *sandbox, struct ulid *ret_id);
bool service_open_has(struct task_service *s, const struct ulid *id);

/* ---- prepare.c ---- */
void *prepare_run(void *service);
void prepare_ask(struct task_service *s, struct prepare_job *take_job);
void prepare_job_free(struct prepare_job *job);

/* ---- scheduler.c ---- */
void *scheduler_run(void *service);
void scheduler_due(struct task_service *s, int64_t at_ms);
/* May the supervisor forget that id: an older attempt, or a task that is over here? */
bool scheduler_is_stale(struct task_service *s, const struct box *b, const struct ulid *id);
/* Looks what can be done next for a sandbox. */
void scheduler_drive(struct task_service *s, struct box *b);

/* ---- run.c: the scheduler's thread ---- */
/* Makes the box's run from a row and holds its sandbox. ERR_INVALID: an agent that is not there any
 * more. */
int run_take(struct task_service *s, struct box *b, const struct task_row *row, struct err *e)
    MUST_CHECK;
/* Lets go of the box's run without ending the task. */
void run_drop(struct task_service *s, struct box *b);
/* Its id at the supervisor: that of the task but for the first character, which counts the
 * attempts. */
struct ulid run_id(const struct run *run);
/* Writes files and arguments of an attempt, then starts it. */
void run_launch(struct task_service *s, struct box *b);
void run_prepared(struct task_service *s, struct box *b, struct prepare_job *job);
void run_send_cancel(struct task_service *s, struct box *b);
void run_send_finish(struct task_service *s, struct box *b);
void run_send_ack(struct task_service *s, const struct box *b, const struct ulid *id, int64_t seq);
/* One more event of the run; type static. Failure is logged. */
void run_event(struct task_service *s, const struct run *run, const char *type, struct str fields);
void run_status(struct task_service *s, const struct run *run, const char *status,
                const char *detail);
/* status{running} with what the next process of ours must know to go on. */
int run_store_attempt(struct task_service *s, struct run *run, const char *detail, struct err *e)
    MUST_CHECK;
/* Looks in the store whether the task was refused for good. */
void run_load_refusal(struct task_service *s, struct run *run);
/* Ends the task, once, and the box is free for the next. reason and message may be "". */
void run_end(struct task_service *s, struct box *b, enum task_status status, const char *reason,
             const char *message);
/* Ends a run of which nothing more will be heard: what its last words said stands, else interrupted
 * with that reason. */
void run_abandon(struct task_service *s, struct box *b, const char *reason, const char *message);
/* Ends a task that cannot even be taken up. */
void run_refuse(struct task_service *s, const struct ulid *id, const char *message);
/* Forgets the run in memory and takes it up from the store again after a pause. */
void run_begin_anew(struct task_service *s, struct box *b);

/* ---- models.c ---- */
bool models_valid(struct str model);
/* The index-th of a comma separated list; empty with ptr NULL beyond its end. */
struct str models_free(const char *list, int index);
/* Does the agent have to go without a key on its native provider? */
bool models_keyless(struct task_service *s, const struct vault_agent *agent);
/* Chooses the model of the run's attempt; fills model and model_index. ERR_NOT_FOUND tagged
 * agent_not_connected. */
int models_choose(struct task_service *s, struct run *run, struct err *e) MUST_CHECK;
/* Splits what a person wrote, or what was chosen, into provider and model. */
void models_split(struct task_service *s, const struct vault_agent *agent, const char *model,
                  struct str *ret_provider, const char **ret_model);
/* Can this agent use that model now? ERR_INVALID tagged agent_not_connected. */
int models_check(struct task_service *s, const struct vault_agent *agent, const char *model,
                 struct err *e) MUST_CHECK;

/* ---- lines.c ---- */
/* Deals with records of one run, in order; all of them are for the box's run or for nothing. */
void lines_take(struct task_service *s, struct box *b, struct note *const *notes, size_t count);

/* ---- masking.c ---- */
/* Learns what the app was given since the last look. Reads the database when there was a change. */
int masking_refresh(struct task_service *s, struct run *run, struct err *e) MUST_CHECK;
/* The line without it; in out, of MASKING_TEXT_MAX, when something is to be masked. JSON stays
 * JSON; what is too long is left out. */
#define MASKING_TEXT_MAX (16UL << 20)
struct str masking_apply(const struct run *run, struct str text, struct buf *out);
void masking_done(struct run *run);

/* ---- outcome.c ---- */
struct outcome {
    enum task_status status;
    const char *reason;
};

/* Of a run that may ask no model any more. */
struct outcome outcome_refused(const struct run *run);
/* The agent's process is over. One that was killed waits a moment for who killed it. */
void outcome_exit(struct task_service *s, struct box *b, const struct record *exit);
/* Something changed: is the wait over? True when it was, and the run may be gone. */
bool outcome_look(struct task_service *s, struct box *b);
/* The reason and the sentence of a task whose sandbox ended under it. */
void outcome_sandbox_end(const struct sandbox_view *view, char reason[32],
                         const char **ret_message);

/* ---- resume.c ---- */
/* Takes up a running task from its row and its events. */
int resume_run(struct task_service *s, struct box *b, const struct ulid *id, struct err *e)
    MUST_CHECK;
