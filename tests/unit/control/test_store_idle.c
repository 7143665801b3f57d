/*
 * Tests of what the database keeps about sleep: policies, thresholds, keep-alive, a person's stop;
 * and of the way there from the schema before. One thread.
 */
#include <sqlite3.h>

#include "control/store/schema.h"
#include "tests/unit/control/store.h"

static struct app_row look(const struct ulid *id)
{
    struct app_row app;
    OK(apps_get(db, id, arena, &app, &e));
    return app;
}

static struct sandbox_row look_sandbox(const struct ulid *id)
{
    struct sandbox_row row;
    OK(sandboxes_get(db, id, arena, &row, &e));
    return row;
}

static void test_policy(void **state)
{
    (void)state;
    struct app_row app = store_app("sleeper");
    assert_false(look(&app.id).always_on);
    assert_int_equal(look(&app.id).idle_threshold_s, 0);
    OK(apps_update(db, &app.id,
                   &(struct app_change){.idle_policy = "always_on",
                                        .set_idle_threshold = true,
                                        .idle_threshold_s = 90},
                   &e));
    store_reopen();
    assert_true(look(&app.id).always_on);
    assert_int_equal(look(&app.id).idle_threshold_s, 90);
    OK(apps_update(db, &app.id, &(struct app_change){.name = "renamed"}, &e));
    assert_true(look(&app.id).always_on);
    assert_int_equal(look(&app.id).idle_threshold_s, 90);
    OK(apps_update(db, &app.id,
                   &(struct app_change){.idle_policy = "sleep", .set_idle_threshold = true}, &e));
    assert_false(look(&app.id).always_on);
    assert_int_equal(look(&app.id).idle_threshold_s, 0);
    /* Refused by the table itself, and nothing of the change stays. */
    REFUSED(apps_update(db, &app.id, &(struct app_change){.name = "x", .idle_policy = "never"}, &e),
            ERR_CONFLICT);
    assert_string_equal(look(&app.id).name, "renamed");
}

static void test_policy_of_a_new_app(void **state)
{
    (void)state;
    struct app_row app = {.id = ulid_new(),
                          .name = "up",
                          .description = "",
                          .runtime_preset = "node-http",
                          .always_on = true,
                          .idle_threshold_s = 60};
    OK(apps_insert(db, &app, &e));
    assert_true(look(&app.id).always_on);
    assert_int_equal(look(&app.id).idle_threshold_s, 60);
}

static void test_keep_alive(void **state)
{
    (void)state;
    struct app_row app = store_app("kept");
    struct sandbox_row box = store_sandbox(&app.id);
    assert_int_equal(look_sandbox(&box.id).keep_alive_until, 0);
    OK(sandboxes_set_keep_alive(db, &box.id, 1234567890123, &e));
    store_reopen();
    assert_int_equal(look_sandbox(&box.id).keep_alive_until, 1234567890123);
    OK(sandboxes_set_keep_alive(db, &box.id, 0, &e));
    assert_int_equal(look_sandbox(&box.id).keep_alive_until, 0);
}

/* Who chooses always_on wants it up; who stopped an always_on app and renames it does not. */
static void test_stays_stopped(void **state)
{
    (void)state;
    struct app_row app = store_app("stopped by hand");
    struct sandbox_row box = store_sandbox(&app.id);
    OK(sandboxes_set_stays_stopped(db, &box.id, true, &e));
    store_reopen();
    assert_true(look_sandbox(&box.id).stays_stopped);
    OK(apps_update(db, &app.id, &(struct app_change){.idle_policy = "always_on"}, &e));
    assert_false(look_sandbox(&box.id).stays_stopped);
    OK(sandboxes_set_stays_stopped(db, &box.id, true, &e));
    OK(apps_update(db, &app.id, &(struct app_change){.name = "x", .idle_policy = "always_on"}, &e));
    assert_true(look_sandbox(&box.id).stays_stopped);
    OK(sandboxes_set_stays_stopped(db, &box.id, false, &e));
    assert_false(look_sandbox(&box.id).stays_stopped);
}

static void test_from_schema_1(void **state)
{
    (void)state;
    static const char *const files[] = {"state/sandboxd.db", "state/sandboxd.db-wal",
                                        "state/sandboxd.db-shm"};
    struct ulid id = ulid_new();
    sqlite3 *raw = NULL;
    char sql[512];
    db_close(db);
    db = NULL;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        (void)unlink(store_path(files[i]));
    }
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO app(id,name,description,runtime_preset,created_at,updated_at)"
                   " VALUES('%s','old','','node-http',1,1); PRAGMA user_version=1",
                   id.text);
    assert_int_equal(sqlite3_open(store_path("state/sandboxd.db"), &raw), SQLITE_OK);
    assert_int_equal(sqlite3_exec(raw, schema_migrations[0], NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(raw, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(raw), SQLITE_OK);
    OK(db_open(store_dir, &db, &e));
    assert_string_equal(look(&id).name, "old");
    assert_false(look(&id).always_on);
    assert_int_equal(look(&id).idle_threshold_s, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(test_policy),        WITH_STORE(test_policy_of_a_new_app),
        WITH_STORE(test_keep_alive),    WITH_STORE(test_stays_stopped),
        WITH_STORE(test_from_schema_1),
    };
    (void)umask(077);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
