/*
 * Tests of the database: migrations, transactions, apps, sandboxes, events, settings and sessions,
 * each against real files. One thread, but for the one about threads.
 */
#include <sqlite3.h>

#include "control/store/events.h"
#include "control/store/schema.h"
#include "control/store/settings.h"
#include "control/store/tasks.h"
#include "lib/thread.h"
#include "tests/unit/control/store.h"

static void raw_sql(const char *sql)
{
    sqlite3 *raw = NULL;
    assert_int_equal(sqlite3_open(store_path("state/sandboxd.db"), &raw), SQLITE_OK);
    assert_int_equal(sqlite3_exec(raw, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(raw), SQLITE_OK);
}

static void test_newer_schema_stops(void **state)
{
    (void)state;
    char sql[64];
    db_close(db);
    db = NULL;
    (void)snprintf(sql, sizeof(sql), "PRAGMA user_version=%d", schema_version + 1);
    raw_sql(sql);
    REFUSED(db_open(store_dir, &db, &e), ERR_CONFLICT);
    assert_non_null(strstr(e.msg, "newer sandboxd"));
    (void)snprintf(sql, sizeof(sql), "PRAGMA user_version=%d", schema_version);
    raw_sql(sql);
    OK(db_open(store_dir, &db, &e));
}

static void test_not_a_database(void **state)
{
    (void)state;
    struct stat st;
    db_close(db);
    db = NULL;
    FILE *file = fopen(store_path("state/sandboxd.db"), "we");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++) {
        (void)fputs("this is no database\n", file);
    }
    (void)fclose(file);
    assert_int_equal(db_open(store_dir, &db, &e), -1);
    assert_true(e.msg[0]);
    db = NULL;
    /* It is left for a person to look at. */
    assert_int_equal(stat(store_path("state/sandboxd.db"), &st), 0);
    assert_int_equal(st.st_size, 20000);
}

static void test_restored_from_backup(void **state)
{
    (void)state;
    struct app_row app = store_app("kept");
    db_close(db);
    db = NULL;
    char from[128];
    (void)snprintf(from, sizeof(from), "%s", store_path("state/sandboxd.db"));
    assert_int_equal(rename(from, store_path("state/backup/sandboxd.db")), 0);
    OK(db_open(store_dir, &db, &e));
    struct app_row back;
    OK(apps_get(db, &app.id, arena, &back, &e));
    assert_string_equal(back.name, "kept");
}

static void test_rollback(void **state)
{
    (void)state;
    struct app_row app = store_app("before");
    struct db_conn *conn = NULL;
    OK(db_write_begin(db, &conn, &e));
    OK(db_exec(conn, &e, "UPDATE app SET name='changed'", ""));
    assert_int_equal(db_changes(conn), 1);
    assert_int_equal(db_write_end(db, conn, -1, &e), -1);
    struct app_row back;
    OK(apps_get(db, &app.id, arena, &back, &e));
    assert_string_equal(back.name, "before");
    /* A statement that fails leaves nothing half done and no lock held. */
    REFUSED(apps_insert(db, &app, &e), ERR_CONFLICT);
    (void)store_app("next");
}

static void test_texts(void **state)
{
    (void)state;
    /* Whatever people write, nothing of it is SQL and nothing is lost. */
    static const char *const names[] = {"'; DROP TABLE app; --", "\xF0\x9F\x98\x80 \"q\" \\ %s",
                                        "line\nbreak", " "};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct app_row back;
        struct app_row app = store_app(names[i]);
        OK(apps_get(db, &app.id, arena, &back, &e));
        assert_string_equal(back.name, names[i]);
    }
}

static void test_apps(void **state)
{
    (void)state;
    struct app_row apps[5];
    struct app_row *list = NULL;
    struct app_row back;
    size_t count = 0;
    for (int i = 0; i < 5; i++) {
        apps[i] = store_app("same name");
    }
    OK(apps_list(db, "", 3, arena, &list, &count, &e));
    assert_int_equal(count, 3);
    assert_true(ulid_eq(&list[0].id, &apps[4].id));
    OK(apps_list(db, list[2].id.text, 3, arena, &list, &count, &e));
    assert_int_equal(count, 2);
    assert_true(ulid_eq(&list[1].id, &apps[0].id));
    OK(apps_update(db, &apps[0].id, &(struct app_change){.name = "new"}, &e));
    OK(apps_update(db, &apps[0].id, &(struct app_change){.description = "words"}, &e));
    OK(apps_get(db, &apps[0].id, arena, &back, &e));
    assert_string_equal(back.name, "new");
    assert_string_equal(back.description, "words");
    struct ulid unknown = ulid_new();
    REFUSED(apps_update(db, &unknown, &(struct app_change){.name = "x"}, &e), ERR_NOT_FOUND);
    REFUSED(apps_get(db, &unknown, arena, &back, &e), ERR_NOT_FOUND);
}

static void test_app_deletion(void **state)
{
    (void)state;
    struct app_row app = store_app("doomed");
    struct app_row other = store_app("other");
    struct sandbox_row sandbox = store_sandbox(&app.id);
    struct ulid *deleting = NULL;
    struct app_row *list = NULL;
    struct event_row *events = NULL;
    size_t count = 0;
    events_add(db, &(struct event_row){.kind = "app.created", .app_id = app.id.text});
    events_add(db, &(struct event_row){.kind = "app.created", .app_id = other.id.text});
    OK(apps_mark_deleting(db, &app.id, &e));
    OK(apps_list(db, "", 50, arena, &list, &count, &e));
    assert_int_equal(count, 1);
    store_reopen();
    OK(apps_list_deleting(db, arena, &deleting, &count, &e));
    assert_int_equal(count, 1);
    assert_true(ulid_eq(&deleting[0], &app.id));
    OK(apps_delete(db, &app.id, &e));
    OK(apps_delete(db, &app.id, &e));
    struct app_row back;
    struct sandbox_row row;
    REFUSED(apps_get(db, &app.id, arena, &back, &e), ERR_NOT_FOUND);
    REFUSED(sandboxes_get(db, &sandbox.id, arena, &row, &e), ERR_NOT_FOUND);
    OK(events_list(db, app.id.text, 0, 50, arena, &events, &count, &e));
    assert_int_equal(count, 0);
    OK(events_list(db, "", 0, 50, arena, &events, &count, &e));
    assert_int_equal(count, 1);
}

static void test_one_sandbox_per_app(void **state)
{
    (void)state;
    struct app_row app = store_app("one");
    struct sandbox_row first = store_sandbox(&app.id);
    struct sandbox_row second = first;
    struct sandbox_row back;
    second.id = ulid_new();
    REFUSED(sandboxes_insert(db, &second, &e), ERR_CONFLICT);
    assert_string_equal(e.tag, "sandbox_exists");
    assert_non_null(strstr(e.msg, first.id.text));
    OK(sandboxes_of_app(db, &app.id, arena, &back, &e));
    assert_true(ulid_eq(&back.id, &first.id));
    assert_int_equal(back.port_count, 2);
    assert_int_equal(back.ports[1], 8080);
    assert_int_equal(back.disk_bytes, -1);
    /* Deleted: the row still answers, the app is free for another. */
    OK(sandboxes_finish_delete(db, &first.id, &e));
    OK(sandboxes_get(db, &first.id, arena, &back, &e));
    assert_int_equal(back.status, SANDBOX_DELETED);
    assert_int_equal(back.uid_number, 0);
    REFUSED(sandboxes_of_app(db, &app.id, arena, &back, &e), ERR_NOT_FOUND);
    OK(sandboxes_insert(db, &second, &e));
}

static void test_uid_numbers(void **state)
{
    (void)state;
    struct sandbox_row rows[5];
    for (int i = 0; i < 5; i++) {
        struct app_row app = store_app("x");
        rows[i] = store_sandbox(&app.id);
        assert_int_equal(rows[i].uid_number, i + 1);
    }
    /* The smallest free one comes first; one that is in use never. */
    OK(sandboxes_finish_delete(db, &rows[1].id, &e));
    OK(sandboxes_finish_delete(db, &rows[3].id, &e));
    static const uint32_t next[] = {2, 4, 6};
    for (int i = 0; i < 3; i++) {
        struct app_row app = store_app("y");
        struct sandbox_row row = store_sandbox(&app.id);
        assert_int_equal(row.uid_number, next[i]);
    }
    OK(sandboxes_forget(db, &rows[0].id, &e));
    struct app_row app = store_app("z");
    struct sandbox_row row = store_sandbox(&app.id);
    assert_int_equal(row.uid_number, 1);
}

static void test_sandbox_status(void **state)
{
    (void)state;
    struct app_row app = store_app("s");
    struct sandbox_row sandbox = store_sandbox(&app.id);
    struct sandbox_row back;
    OK(sandboxes_set_status(db, &sandbox.id, SANDBOX_RUNNING, "", "", &e));
    OK(sandboxes_get(db, &sandbox.id, arena, &back, &e));
    assert_int_equal(back.status, SANDBOX_RUNNING);
    assert_true(back.started_at > 0);
    assert_int_equal(back.stopped_at, 0);
    OK(sandboxes_set_status(db, &sandbox.id, SANDBOX_ERROR, "start_failed", "words", &e));
    OK(sandboxes_get(db, &sandbox.id, arena, &back, &e));
    assert_string_equal(back.error_code, "start_failed");
    assert_string_equal(back.error_message, "words");
    assert_true(back.stopped_at > 0);
    int64_t generation = 0;
    OK(sandboxes_next_generation(db, &sandbox.id, SANDBOX_STARTING, &generation, &e));
    assert_int_equal(generation, 1);
    OK(sandboxes_next_generation(db, &sandbox.id, SANDBOX_STARTING, &generation, &e));
    assert_int_equal(generation, 2);
    OK(sandboxes_note(db, &sandbox.id, 1500, -1, 0, &e));
    OK(sandboxes_note(db, &sandbox.id, -1, 9999, back.last_active_at + 5, &e));
    OK(sandboxes_set_disk(db, &sandbox.id, 123, &e));
    struct sandbox_row noted;
    OK(sandboxes_get(db, &sandbox.id, arena, &noted, &e));
    assert_int_equal(noted.usual_start_ms, 1500);
    assert_int_equal(noted.peak_memory_bytes, 9999);
    assert_int_equal(noted.last_active_at, back.last_active_at + 5);
    assert_int_equal(noted.disk_bytes, 123);
    /* Deleted is the end. */
    OK(sandboxes_finish_delete(db, &sandbox.id, &e));
    OK(sandboxes_set_status(db, &sandbox.id, SANDBOX_RUNNING, "", "", &e));
    OK(sandboxes_get(db, &sandbox.id, arena, &back, &e));
    assert_int_equal(back.status, SANDBOX_DELETED);
}

static void test_page_of_sandboxes(void **state)
{
    (void)state;
    struct app_row apps[4];
    struct sandbox_row *list = NULL;
    size_t count = 0;
    for (int i = 0; i < 4; i++) {
        apps[i] = store_app("p");
        if (i != 1) {
            (void)store_sandbox(&apps[i].id);
        }
    }
    OK(sandboxes_of_page(db, &apps[1].id, &apps[3].id, 10, arena, &list, &count, &e));
    assert_int_equal(count, 2);
    assert_true(ulid_eq(&list[0].app_id, &apps[3].id));
    assert_true(ulid_eq(&list[1].app_id, &apps[2].id));
    assert_int_equal(list[0].status, SANDBOX_CREATING);
    assert_string_equal(list[0].image, "node-http");
    assert_int_equal(list[0].port_count, 2);
    assert_int_equal(list[0].web_port, 3000);
    assert_int_equal(list[0].disk_bytes, -1);
    OK(sandboxes_list(db, arena, &list, &count, &e));
    assert_int_equal(count, 3);
}

static void test_events(void **state)
{
    (void)state;
    struct event_row *list = NULL;
    size_t count = 0;
    for (int i = 0; i < 5; i++) {
        events_add(db, &(struct event_row){.kind = "a.b", .payload = "{\"n\":1}", .actor = "me"});
    }
    OK(events_list(db, "", 0, 2, arena, &list, &count, &e));
    assert_int_equal(count, 2);
    assert_true(list[0].id > list[1].id);
    assert_string_equal(list[0].severity, "info");
    assert_string_equal(list[0].payload, "{\"n\":1}");
    assert_string_equal(list[0].app_id, "");
    OK(events_list(db, "", list[1].id, 50, arena, &list, &count, &e));
    assert_int_equal(count, 3);
    /* One that the table refuses is logged, no more. */
    events_add(db, &(struct event_row){.kind = "a.b", .severity = "odd"});
    OK(events_list(db, "", 0, 50, arena, &list, &count, &e));
    assert_int_equal(count, 5);
}

static void test_settings_and_sessions(void **state)
{
    (void)state;
    const char *value = NULL;
    bool taken = false;
    OK(settings_get(db, "k", arena, &value, &e));
    assert_string_equal(value, "");
    OK(settings_set(db, "k", "one", &e));
    OK(settings_set(db, "k", "two", &e));
    OK(settings_take(db, "k", "one", &taken, &e));
    assert_false(taken);
    OK(settings_take(db, "k", "two", &taken, &e));
    assert_true(taken);
    OK(settings_take(db, "k", "two", &taken, &e));
    assert_false(taken);
    OK(settings_set(db, "k", "x", &e));
    OK(settings_set(db, "k", NULL, &e));
    OK(settings_get(db, "k", arena, &value, &e));
    assert_string_equal(value, "");
    int64_t now = clock_unix_ms();
    OK(sessions_add(db, "late", now - 1, &e));
    OK(sessions_add(db, "good", now + 60000, &e));
    assert_true(sessions_valid(db, "good"));
    assert_false(sessions_valid(db, "late"));
    assert_false(sessions_valid(db, "GOOD"));
    assert_false(sessions_valid(db, ""));
    store_reopen();
    assert_true(sessions_valid(db, "good"));
    OK(sessions_remove(db, "good", &e));
    assert_false(sessions_valid(db, "good"));
    OK(sessions_add(db, "a", now + 60000, &e));
    OK(sessions_remove_all(db, &e));
    assert_false(sessions_valid(db, "a"));
}

static int64_t epoch_of(const struct ulid *app_id)
{
    struct access_row row;
    OK(access_get(db, app_id, &row, &e));
    return row.epoch;
}

static void test_access(void **state)
{
    (void)state;
    bool changed = false;
    struct app_row app = store_app("a");
    struct app_row back;
    struct ulid none = ulid_new();
    OK(apps_get(db, &app.id, arena, &back, &e));
    assert_false(back.is_private);
    assert_int_equal(back.access_epoch, 1);
    int64_t changes = access_changes(db);
    OK(access_set(db, &app.id, true, &changed, &e));
    assert_true(changed);
    assert_int_equal(access_changes(db), changes + 1);
    OK(access_set(db, &app.id, true, &changed, &e));
    assert_false(changed);
    store_reopen();
    OK(apps_get(db, &app.id, arena, &back, &e));
    assert_true(back.is_private);
    assert_int_equal(back.access_epoch, 2);
    REFUSED(access_set(db, &none, true, &changed, &e), ERR_NOT_FOUND);
    struct access_row *rows = NULL;
    size_t count = 0;
    OK(access_list(db, arena, &rows, &count, &e));
    assert_int_equal(count, 1);
    assert_true(rows[0].is_private);
    assert_int_equal(rows[0].epoch, 2);
}

/* The end of a session raises the epoch of the apps it went into, and of no other. */
static void test_access_of_sessions(void **state)
{
    (void)state;
    struct app_row mine = store_app("mine");
    struct app_row other = store_app("other");
    char first[ACCESS_SESSION_BYTES];
    char second[ACCESS_SESSION_BYTES];
    int64_t now = clock_unix_ms();
    int64_t expires = 0;
    int64_t epoch = 0;
    OK(sessions_add(db, "one", now + 60000, &e));
    OK(sessions_add(db, "two", now + 60000, &e));
    assert_true(sessions_find(db, "one", first));
    assert_true(sessions_find(db, "two", second));
    assert_int_equal(strlen(first), ACCESS_SESSION_BYTES - 1);
    assert_string_not_equal(first, second);
    OK(access_enter(db, first, &mine.id, &expires, &epoch, &e));
    assert_int_equal(expires, now + 60000);
    assert_int_equal(epoch, 1);
    OK(access_enter(db, first, &mine.id, &expires, &epoch, &e));
    OK(access_enter(db, second, &other.id, &expires, &epoch, &e));
    REFUSED(access_enter(db, "nobody", &mine.id, &expires, &epoch, &e), ERR_UNAUTHORIZED);
    OK(access_enter(db, "", &mine.id, &expires, &epoch, &e));
    assert_int_equal(expires, INT64_MAX);

    int64_t changes = access_changes(db);
    OK(sessions_remove(db, "one", &e));
    assert_int_equal(epoch_of(&mine.id), 2);
    assert_int_equal(epoch_of(&other.id), 1);
    assert_true(access_changes(db) > changes);
    REFUSED(access_enter(db, first, &mine.id, &expires, &epoch, &e), ERR_UNAUTHORIZED);
    OK(sessions_remove_all(db, &e));
    assert_int_equal(epoch_of(&other.id), 2);
    assert_int_equal(epoch_of(&mine.id), 2);
}

/* A database of the version before has sessions without names; each gets one of its own. */
static void test_sessions_of_before(void **state)
{
    (void)state;
    char first[ACCESS_SESSION_BYTES];
    char second[ACCESS_SESSION_BYTES];
    db_close(db);
    db = NULL;
    assert_int_equal(unlink(store_path("state/sandboxd.db")), 0);
    raw_sql("PRAGMA user_version=1");
    raw_sql(schema_migrations[0]);
    raw_sql("INSERT INTO session VALUES('a',1,1,9999999999999),('b',1,1,9999999999999);"
            "INSERT INTO app VALUES('01k9p3n8c4w6r2t5y7a9b1d3f5','n','','node-http',0,0,1,1)");
    OK(db_open(store_dir, &db, &e));
    assert_true(sessions_find(db, "a", first));
    assert_true(sessions_find(db, "b", second));
    assert_string_not_equal(first, second);
    struct app_row app;
    struct ulid id;
    assert_true(ulid_parse(STR("01k9p3n8c4w6r2t5y7a9b1d3f5"), &id));
    OK(apps_get(db, &id, arena, &app, &e));
    assert_false(app.is_private);
    assert_int_equal(app.access_epoch, 1);
}

/* More readers than connections, beside a writer. */
static void *read_and_write(void *ctx)
{
    struct err why;
    for (int i = 0; i < 50; i++) {
        struct arena *a AUTO(arena) = arena_new(1 << 20);
        struct app_row *list = NULL;
        size_t count = 0;
        struct app_row app = {.id = ulid_new(),
                              .name = "t",
                              .description = "",
                              .runtime_preset = "x",
                              .created_at = 1};
        if (apps_insert(ctx, &app, &why) != 0 ||
            apps_list(ctx, "", 10, a, &list, &count, &why) != 0 || count == 0) {
            abort();
        }
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        threads[i] = thread_start("store", read_and_write, db);
    }
    for (int i = 0; i < 8; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    struct app_row *list = NULL;
    size_t count = 0;
    OK(apps_list(db, "", 1000, arena, &list, &count, &e));
    assert_int_equal(count, 400);
}

/* With the umask that the program sets first, nobody else reads the database or what is not yet in
 * it. */
static void test_file_modes(void **state)
{
    (void)state;
    struct stat st;
    (void)store_app("makes a -wal file");
    assert_int_equal(stat(store_path("state/sandboxd.db"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(store_path("state/sandboxd.db-wal"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(test_newer_schema_stops),
        WITH_STORE(test_not_a_database),
        WITH_STORE(test_restored_from_backup),
        WITH_STORE(test_rollback),
        WITH_STORE(test_texts),
        WITH_STORE(test_apps),
        WITH_STORE(test_app_deletion),
        WITH_STORE(test_one_sandbox_per_app),
        WITH_STORE(test_uid_numbers),
        WITH_STORE(test_sandbox_status),
        WITH_STORE(test_page_of_sandboxes),
        WITH_STORE(test_events),
        WITH_STORE(test_settings_and_sessions),
        WITH_STORE(test_access),
        WITH_STORE(test_access_of_sessions),
        WITH_STORE(test_sessions_of_before),
        WITH_STORE(test_threads),
        WITH_STORE(test_file_modes),
    };
    (void)umask(077);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
