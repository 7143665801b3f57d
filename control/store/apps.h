/*
 * Apps: the durable projects.
 */
#pragma once

#include "control/store/db.h"
#include "lib/ulid.h"

struct app_row {
    struct ulid id;
    const char *name; /* strings live in the arena of the call */
    const char *description;
    const char *runtime_preset;
    int64_t memory_bytes; /* 0: the installation's default */
    bool deleting;
    bool is_private;      /* its preview: for the owner's sessions only */
    int64_t access_epoch; /* from 1; 0 in a row to insert is taken for that */
    int64_t created_at;
    int64_t updated_at;
    bool always_on;           /* idle_policy always_on; else sleep */
    int64_t idle_threshold_s; /* 0: the installation's */
};

/* What a PATCH changes; a member that is NULL or not set stays. */
struct app_change {
    const char *name;
    const char *description;
    const char *idle_policy; /* "sleep", "always_on" */
    bool set_idle_threshold;
    int64_t idle_threshold_s; /* 0: the installation's */
    int64_t memory_bytes;     /* 0: as it is; of its sandbox too, from its next start on */
};

/* "sleep" or "always_on". */
const char *app_idle_policy_name(bool always_on);

int apps_insert(struct db *db, const struct app_row *row, struct err *e) MUST_CHECK;
/* ERR_NOT_FOUND. */
int apps_get(struct db *db, const struct ulid *id, struct arena *a, struct app_row *ret,
             struct err *e) MUST_CHECK;
/* All of it or nothing. An app that becomes always_on loses its sandbox's stays_stopped.
 * ERR_NOT_FOUND. */
int apps_update(struct db *db, const struct ulid *id, const struct app_change *change,
                struct err *e) MUST_CHECK;
/* Newest first, at most limit, those with an id below `before` ("" for all), none that are being
 * deleted. */
int apps_list(struct db *db, const char *before, int limit, struct arena *a, struct app_row **ret,
              size_t *ret_count, struct err *e) MUST_CHECK;
int apps_mark_deleting(struct db *db, const struct ulid *id, struct err *e) MUST_CHECK;
/* The row with everything under it: sandbox rows, tasks, their events, the app's events. */
int apps_delete(struct db *db, const struct ulid *id, struct err *e) MUST_CHECK;
/* Ids of apps whose deletion was begun. */
int apps_list_deleting(struct db *db, struct arena *a, struct ulid **ret, size_t *ret_count,
                       struct err *e) MUST_CHECK;
