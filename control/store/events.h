/*
 * Events: one append-only table, one function that writes it.
 */
#pragma once

#include "control/store/db.h"

struct event_row {
    int64_t id; /* set by the store */
    int64_t at;
    const char *kind;     /* "sandbox.started" */
    const char *severity; /* "info", "warning", "error" */
    const char *actor;    /* "" for sandboxd itself */
    const char *app_id;   /* "" for none */
    const char *sandbox_id;
    const char *task_id;
    const char *payload; /* a JSON object, never a secret */
};

/* Failure is logged, not returned: an event must not undo what it tells of. NULL strings are "".
 * Any thread. */
void events_add(struct db *db, const struct event_row *event);
/* The same inside a transaction of the caller's: stored with what it tells of, or not at all. */
int events_put(struct db_conn *conn, const struct event_row *event, struct err *e) MUST_CHECK;
/* Newest first, ids below before (0: all), of one app when app_id is not "". */
int events_list(struct db *db, const char *app_id, int64_t before, int limit, struct arena *a,
                struct event_row **ret, size_t *ret_count, struct err *e) MUST_CHECK;
