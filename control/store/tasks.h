/*
 * Tasks: one prompt each, with its events. Lines of the agent are turned into events elsewhere
 * (control/task/).
 */
#pragma once

#include "control/store/db.h"
#include "lib/ulid.h"

enum task_status {
    TASK_QUEUED,
    TASK_RUNNING,
    TASK_SUCCEEDED,
    TASK_FAILED,
    TASK_CANCELLED,
    TASK_TIMED_OUT,
    TASK_BUDGET_REACHED,
    TASK_INTERRUPTED,
};

struct task_row {
    struct ulid id;
    struct ulid app_id;
    struct ulid sandbox_id;
    const char *agent;
    const char *model;
    const char *prompt;
    enum task_status status;
    const char *failure_reason;
    const char *error_message;
    const char *agent_message;
    int64_t timeout_s;
    const char *boot_id;   /* of the supervisor that runs it */
    int64_t line_seq;      /* last line of the supervisor that was stored */
    const char *session;   /* the agent's own conversation id */
    const char *token_box; /* sealed task token */
    int64_t tokens_input;  /* -1: unknown; so are the next three */
    int64_t tokens_output;
    int64_t tokens_cached;
    int64_t cost_microusd;
    int64_t created_at;
    int64_t started_at;
    int64_t finished_at;
    int64_t requests;        /* counted by the credentials proxy; 0: the figures are the agent's */
    int64_t unpriced;        /* of these, whose cost is unknown */
    int64_t budget_microusd; /* -1: none; so is the next */
    int64_t budget_tokens;
};

struct task_event_row {
    int64_t seq;
    int64_t at;
    const char *type;
    const char *data; /* JSON object: {"seq":…,"at":…,"type":…,…} */
};

const char *task_status_name(enum task_status status);

static inline bool task_is_over(enum task_status status)
{
    return status > TASK_RUNNING;
}

int tasks_insert(struct db *db, const struct task_row *row, struct err *e) MUST_CHECK;
/* ERR_NOT_FOUND. */
int tasks_get(struct db *db, const struct ulid *id, struct arena *a, struct task_row *ret,
              struct err *e) MUST_CHECK;
/* Texts of one page: prompts are long, and a page must fit into memory and into one answer. */
#define TASKS_PAGE_BYTES (1024UL * 1024)
/* Bytes of a row's texts, as they count for a page. */
size_t tasks_row_bytes(const struct task_row *row);
/* At most limit, and no more once their texts are TASKS_PAGE_BYTES together. Newest first of one
 * sandbox or one app (exactly one of both is not NULL), ids below before ("" for all). */
int tasks_list(struct db *db, const struct ulid *sandbox_id, const struct ulid *app_id,
               const char *before, int limit, struct arena *a, struct task_row **ret,
               size_t *ret_count, struct err *e) MUST_CHECK;

/* All queued and running, oldest first, without their prompts. */
struct task_open {
    struct ulid id;
    struct ulid app_id;
    struct ulid sandbox_id;
    bool running;
    const char *agent;
    const char *token_box; /* "" while it does not run */
};

int tasks_list_open(struct db *db, struct arena *a, struct task_open **ret, size_t *ret_count,
                    struct err *e) MUST_CHECK;
/* Oldest queued task of a sandbox. ERR_NOT_FOUND. */
int tasks_next_queued(struct db *db, const struct ulid *sandbox_id, struct arena *a,
                      struct task_row *ret, struct err *e) MUST_CHECK;
/* queued → running, with boot id and sealed token. ERR_CONFLICT when it is not queued any more. */
int tasks_mark_running(struct db *db, const struct ulid *id, const char *boot_id,
                       const char *token_box, struct err *e) MUST_CHECK;
int tasks_set_model(struct db *db, const struct ulid *id, const char *model, struct err *e)
    MUST_CHECK;
int tasks_set_session(struct db *db, const struct ulid *id, const char *session, struct err *e)
    MUST_CHECK;
/* The agent's conversation of the newest finished task of that agent in the sandbox, "" for none.
 */
int tasks_last_session(struct db *db, const struct ulid *sandbox_id, const char *agent,
                       struct arena *a, const char **ret, struct err *e) MUST_CHECK;

/* Stores events in order and the supervisor's line number in one transaction (line_seq < 0: leave).
 * Each event's seq is the next one of its task; its data gets "seq", "at" and "type" put in front.
 * Events of a task that is over are dropped. */
struct task_event_new {
    const char *type;
    struct str fields; /* JSON members without braces: "text":"hi" ; may be empty */
};

/* What was stored with tasks_add_lines last, "" for nothing; up to megabytes, so it is no column of
 * a row. */
int tasks_facts(struct db *db, const struct ulid *id, struct arena *a, const char **ret,
                struct err *e) MUST_CHECK;
/* As tasks_add_events, with what those lines added up to (NULL: as before) in the same transaction.
 */
int tasks_add_lines(struct db *db, const struct ulid *id, const struct task_event_new *events,
                    size_t count, int64_t line_seq, const char *facts, struct err *e) MUST_CHECK;
int tasks_add_events(struct db *db, const struct ulid *id, const struct task_event_new *events,
                     size_t count, int64_t line_seq, struct err *e) MUST_CHECK;
/* Ends the task (the fields of the end are taken from row) and stores its "done" event in one
 * transaction. Only a task that is not over changes: *ret_changed. */
int tasks_finish(struct db *db, const struct task_row *row, struct str done_fields,
                 bool *ret_changed, struct err *e) MUST_CHECK;
/* Events after seq, oldest first. */
int tasks_events(struct db *db, const struct ulid *id, int64_t after_seq, int limit,
                 struct arena *a, struct task_event_row **ret, size_t *ret_count, struct err *e)
    MUST_CHECK;
