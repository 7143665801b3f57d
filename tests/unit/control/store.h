/*
 * A database in a directory of its own, for the tests of control/store/. One thread.
 */
#pragma once

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/store/apps.h"
#include "control/store/db.h"
#include "control/store/sandboxes.h"
#include "lib/clock.h"
#include "tests/unit/control/test.h"

static char store_dir[64];
static struct db *db;
static struct arena *arena;
static struct err e;

static inline const char *store_path(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", store_dir, name);
    return path;
}

static inline int store_setup(void **state)
{
    (void)state;
    (void)snprintf(store_dir, sizeof(store_dir), "/tmp/store-XXXXXX");
    if (!mkdtemp(store_dir) || mkdir(store_path("state"), 0700) != 0 ||
        mkdir(store_path("state/backup"), 0700) != 0) {
        return -1;
    }
    arena = arena_new(64UL << 20);
    return db_open(store_dir, &db, &e);
}

static inline int store_teardown(void **state)
{
    static const char *const files[] = {"sandboxd.db", "sandboxd.db-wal", "sandboxd.db-shm",
                                        "backup/sandboxd.db", "reserve"};
    (void)state;
    if (db) {
        db_close(db);
    }
    db = NULL;
    arena_free(arena);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "state/%s", files[i]);
        (void)unlink(store_path(name));
    }
    (void)rmdir(store_path("state/backup"));
    (void)rmdir(store_path("state"));
    return rmdir(store_dir);
}

/* The same files opened anew, as after a restart. */
static inline void store_reopen(void)
{
    db_close(db);
    db = NULL;
    OK(db_open(store_dir, &db, &e));
}

static inline struct app_row store_app(const char *name)
{
    struct app_row app = {.id = ulid_new(),
                          .name = name,
                          .description = "",
                          .runtime_preset = "node-http",
                          .created_at = clock_unix_ms(),
                          .updated_at = clock_unix_ms()};
    OK(apps_insert(db, &app, &e));
    return app;
}

static inline struct sandbox_row store_sandbox(const struct ulid *app_id)
{
    struct sandbox_row row = {.id = ulid_new(),
                              .app_id = *app_id,
                              .status = SANDBOX_CREATING,
                              .image = "node-http",
                              .ports = {3000, 8080},
                              .port_count = 2,
                              .web_port = 3000,
                              .created_at = clock_unix_ms()};
    OK(sandboxes_insert(db, &row, &e));
    return row;
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, store_setup, store_teardown)
