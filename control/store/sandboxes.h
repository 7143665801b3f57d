/*
 * Sandboxes: what should be. Docker is the truth for what is; control/sandbox/ keeps the two
 * together.
 */
#pragma once

#include "control/store/db.h"
#include "lib/ulid.h"

#define SANDBOX_PORTS_MAX 8

enum sandbox_status {
    SANDBOX_CREATING,
    SANDBOX_STARTING,
    SANDBOX_RUNNING,
    SANDBOX_FROZEN,
    SANDBOX_STOPPING,
    SANDBOX_STOPPED,
    SANDBOX_ERROR,
    SANDBOX_DELETING,
    SANDBOX_DELETED, /* kept so that a repeated DELETE and its tasks still answer; never shown */
};

struct sandbox_row {
    struct ulid id;
    struct ulid app_id;
    enum sandbox_status status;
    uint32_t uid_number; /* 0: given back */
    const char *image;   /* name of presets/images.json */
    uint16_t ports[SANDBOX_PORTS_MAX];
    size_t port_count;
    uint16_t web_port;
    int64_t memory_bytes; /* 0: default */
    int64_t generation;
    const char *error_code; /* "" when there is none */
    const char *error_message;
    int64_t usual_start_ms;
    int64_t peak_memory_bytes; /* of its last run, 0: none */
    int64_t oom_kills;         /* of this run, as far as noted */
    int64_t disk_bytes;        /* -1: never measured */
    int64_t disk_at;
    int64_t last_active_at;
    int64_t started_at;
    int64_t stopped_at;
    int64_t created_at;
    int64_t updated_at;
    int64_t keep_alive_until; /* 0: nobody asked */
    bool stays_stopped;       /* a person stopped it */
};

const char *sandbox_status_name(enum sandbox_status status);

/* Takes the smallest free uid number (1..99999) and inserts in one transaction; fills
 * row->uid_number. ERR_CONFLICT tagged sandbox_exists when the app has one: the message names it.
 */
int sandboxes_insert(struct db *db, struct sandbox_row *row, struct err *e) MUST_CHECK;
/* Deleted ones included. ERR_NOT_FOUND. */
int sandboxes_get(struct db *db, const struct ulid *id, struct arena *a, struct sandbox_row *ret,
                  struct err *e) MUST_CHECK;
/* The app's sandbox that is not deleted. ERR_NOT_FOUND. */
int sandboxes_of_app(struct db *db, const struct ulid *app_id, struct arena *a,
                     struct sandbox_row *ret, struct err *e) MUST_CHECK;
/* All that are not deleted (at most 100,000). */
int sandboxes_list(struct db *db, struct arena *a, struct sandbox_row **ret, size_t *ret_count,
                   struct err *e) MUST_CHECK;
/* Status and error together; "" clears the error. Times of start and stop are set by the status. */
int sandboxes_set_status(struct db *db, const struct ulid *id, enum sandbox_status status,
                         const char *error_code, const char *error_message, struct err *e)
    MUST_CHECK;
/* The kernel killed a process of the running sandbox: how many so far, and the error that says it.
 * Nothing when it does not run any more. */
int sandboxes_set_kill(struct db *db, const struct ulid *id, int64_t oom_kills,
                       const char *error_code, const char *error_message, struct err *e) MUST_CHECK;
/* Next generation and the status it begins with, in one write; *ret_generation is the new one. */
int sandboxes_next_generation(struct db *db, const struct ulid *id, enum sandbox_status status,
                              int64_t *ret_generation, struct err *e) MUST_CHECK;
/* Figures learnt at run time; negative values stay as they are. */
int sandboxes_note(struct db *db, const struct ulid *id, int64_t usual_start_ms,
                   int64_t peak_memory_bytes, int64_t last_active_at, struct err *e) MUST_CHECK;
/* Not put to sleep before that time; 0 ends it. */
int sandboxes_set_keep_alive(struct db *db, const struct ulid *id, int64_t until, struct err *e)
    MUST_CHECK;
/* Whether a person stopped it, so that always_on leaves it alone. */
int sandboxes_set_stays_stopped(struct db *db, const struct ulid *id, bool stays, struct err *e)
    MUST_CHECK;
int sandboxes_set_disk(struct db *db, const struct ulid *id, int64_t bytes, struct err *e)
    MUST_CHECK;
/* Status deleted, number given back. After the workspace is gone. */
int sandboxes_finish_delete(struct db *db, const struct ulid *id, struct err *e) MUST_CHECK;
/* Removes the row itself: undoes a create that kept nothing. */
int sandboxes_forget(struct db *db, const struct ulid *id, struct err *e) MUST_CHECK;
/* Those of the apps whose ids lie between both (inclusive), not deleted; at most max. For a page of
 * apps: only id, app, status, image, ports and disk use are filled. */
int sandboxes_of_page(struct db *db, const struct ulid *first_app, const struct ulid *last_app,
                      size_t max, struct arena *a, struct sandbox_row **ret, size_t *ret_count,
                      struct err *e) MUST_CHECK;
