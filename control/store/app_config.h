/*
 * What owners gave their apps: one sealed value a row, and the number of the last change that
 * processes can see. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "control/store/db.h"
#include "lib/ulid.h"

/* Of one app; what it has at most goes into one record. Bytes: keys and values. Former: see below,
 * the oldest goes. */
#define APP_CONFIG_COUNT_MAX  100
#define APP_CONFIG_BYTES_MAX  (32L * 1024)
#define APP_CONFIG_FORMER_MAX 16

struct app_config_row {
    const char *key;
    const char *scope; /* runtime, agent, both */
    bool sensitive;
    const char *box;
    int64_t bytes;   /* of key and value */
    int64_t version; /* of its last change that processes can see; 0: they never saw it */
    int64_t created_at;
    int64_t updated_at;
};

/* All of an app by key, and its version, as of one moment. */
struct app_config_rows {
    struct app_config_row *items; /* in the arena */
    size_t count;
    int64_t version;
};

/* ERR_NOT_FOUND: no such app. */
int app_config_list(struct db *db, const struct ulid *app, struct arena *a,
                    struct app_config_rows *ret, struct err *e) MUST_CHECK;

struct app_config_effect {
    bool is_seen;       /* processes can see the change: the app's version rises */
    const char *former; /* box that processes still run with, kept until app_config_forget; NULL */
};

/* Stores one. created_at counts for a new one only; version is ours. ERR_LIMIT, ERR_NOT_FOUND. */
int app_config_put(struct db *db, const struct ulid *app, const struct app_config_row *row,
                   const struct app_config_effect *effect, struct err *e) MUST_CHECK;
/* ERR_NOT_FOUND. */
int app_config_remove(struct db *db, const struct ulid *app, const char *key,
                      const struct app_config_effect *effect, struct err *e) MUST_CHECK;
/* Key and box only, at most APP_CONFIG_FORMER_MAX. Lives in the arena. */
int app_config_list_former(struct db *db, const struct ulid *app, struct arena *a,
                           struct app_config_rows *ret, struct err *e) MUST_CHECK;
/* Processes run with that version: what was taken away before is with nobody any more. */
int app_config_forget(struct db *db, const struct ulid *app, int64_t version, struct err *e)
    MUST_CHECK;
/* The app's version alone. ERR_NOT_FOUND. */
int app_config_version(struct db *db, const struct ulid *app, int64_t *ret, struct err *e)
    MUST_CHECK;
