/*
 * Who may load a preview: an app's access, its epoch, and which sessions went into which apps.
 *
 * An epoch only ever rises. Every change of one also raises one counter, so that a program that
 * runs beside us (`sandboxd console-code`) is noticed. Any thread.
 */
#pragma once

#include "control/store/db.h"
#include "lib/ulid.h"

/* A session's name: 32 hex digits. */
#define ACCESS_SESSION_BYTES 33

/* Sets it and raises the epoch; *ret_changed is false when it was so already. ERR_NOT_FOUND. */
int access_set(struct db *db, const struct ulid *app_id, bool is_private, bool *ret_changed,
               struct err *e) MUST_CHECK;
/* Notes that a session goes into an app. Fails with ERR_UNAUTHORIZED when the session has ended;
 * *ret_expires_ms is the session's own end (unix), *ret_epoch the app's epoch now. An empty session
 * belongs to an API token: nothing is noted and it has no end. */
int access_enter(struct db *db, const char *session, const struct ulid *app_id,
                 int64_t *ret_expires_ms, int64_t *ret_epoch, struct err *e) MUST_CHECK;
/* The number of changes so far; 0 when none or unreadable. */
int64_t access_changes(struct db *db);

struct access_row {
    struct ulid app_id;
    bool is_private;
    int64_t epoch;
};

/* One app; ERR_NOT_FOUND. */
int access_get(struct db *db, const struct ulid *app_id, struct access_row *ret, struct err *e)
    MUST_CHECK;
/* All apps (at most 100,000). */
int access_list(struct db *db, struct arena *a, struct access_row **ret, size_t *ret_count,
                struct err *e) MUST_CHECK;

/* Inside somebody's transaction: ends what that session (NULL: every session) opened. */
int access_end_session(struct db_conn *conn, const char *session, struct err *e) MUST_CHECK;
