/*
 * What owners give their apps: names, values sealed at rest, versions, what goes to whom.
 */
#include "control/vault/app_config.h"
#include "control/vault/vault_private.h"
#include "lib/mem.h"
#include "tests/unit/control/store.h"

static struct vault vault;
static struct ulid app;
static bool created;
static bool changed;

static int setup(void **state)
{
    static const uint8_t key[CRYPTO_KEY_BYTES] = {7};
    if (store_setup(state) != 0) {
        return -1;
    }
    vault = (struct vault){.db = db};
    crypto_master_init(&vault.master, key);
    (void)pthread_mutex_init(&vault.config_lock, NULL);
    app = ulid_new();
    struct app_row row = {.id = app,
                          .name = "a",
                          .description = "",
                          .runtime_preset = "node-http",
                          .created_at = 1,
                          .updated_at = 1};
    return apps_insert(db, &row, &e);
}

static int teardown(void **state)
{
    (void)pthread_mutex_destroy(&vault.config_lock);
    return store_teardown(state);
}

static int set(const char *key, const char *value, enum app_config_scope scope, bool sensitive)
{
    struct app_config_change c = {.key = key,
                                  .value = {value, value ? strlen(value) : 0},
                                  .scope = scope,
                                  .set_scope = true,
                                  .sensitive = sensitive,
                                  .set_sensitive = true};
    return vault_config_set(&vault, &app, &c, &created, &changed, &e);
}

static struct app_config list(void)
{
    struct app_config config;
    assert_int_equal(vault_config_list(&vault, &app, arena, &config, &e), 0);
    return config;
}

static void names_are_judged(void **state)
{
    static const char *const good[] = {"A",        "_x",    "DATABASE_URL",
                                       "NODE_ENV", "PATHS", "ANTHROPIC_API_KEY"};
    static const char *const bad[] = {
        "",     "1A",       "A-B",        "A=B",  "A.B",
        "PATH", "HOME",     "LD_PRELOAD", "PORT", "SANDBOXD_API_TOKENS",
        "IFS",  "BASH_ENV", "\xc3\xa9"};
    static const char *const not_for_agents[] = {"ANTHROPIC_API_KEY", "OPENCODE_CONFIG",
                                                 "https_proxy",       "HTTP_PROXY",
                                                 "XDG_CONFIG_HOME",   "CLAUDE_X"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(app_config_check_key(str_of(good[i]), APP_CONFIG_RUNTIME, &e), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(app_config_check_key(str_of(bad[i]), APP_CONFIG_RUNTIME, &e), -1);
        assert_int_equal(e.code, ERR_INVALID);
    }
    for (size_t i = 0; i < ARRAY_LEN(not_for_agents); i++) {
        assert_int_equal(app_config_check_key(str_of(not_for_agents[i]), APP_CONFIG_RUNTIME, &e),
                         0);
        assert_int_equal(app_config_check_key(str_of(not_for_agents[i]), APP_CONFIG_BOTH, &e), -1);
    }
}

static void a_value_is_sealed_and_bound_to_its_place(void **state)
{
    struct app_config_rows rows;
    struct app_config config;
    (void)state;
    assert_int_equal(set("KEY", "planted-value", APP_CONFIG_RUNTIME, true), 0);
    assert_true(created && changed);
    assert_int_equal(app_config_list(db, &app, arena, &rows, &e), 0);
    assert_int_equal(rows.count, 1);
    assert_non_null(strstr(rows.items[0].box, vault.master.id));
    assert_null(strstr(rows.items[0].box, "planted"));
    config = list();
    assert_null(config.items[0].value);
    assert_true(config.items[0].is_masked);
    /* A box that was moved to another key does not open. */
    struct app_config_row moved = rows.items[0];
    moved.key = "OTHER";
    assert_int_equal(
        app_config_put(db, &app, &moved, &(struct app_config_effect){.is_seen = true}, &e), 0);
    assert_int_equal(vault_config_list(&vault, &app, arena, &config, &e), -1);
    assert_int_equal(e.code, ERR_FORBIDDEN);
}

static void versions_rise_with_what_processes_see(void **state)
{
    struct app_config_change scope_only = {
        .key = "A", .scope = APP_CONFIG_AGENT, .set_scope = true};
    (void)state;
    assert_int_equal(list().version, 0);
    assert_int_equal(set("A", "one", APP_CONFIG_RUNTIME, false), 0);
    assert_int_equal(list().version, 1);
    assert_string_equal(list().items[0].value, "one");
    assert_int_equal(set("A", "one", APP_CONFIG_RUNTIME, false), 0);
    assert_false(created || changed);
    assert_int_equal(list().version, 1);
    assert_int_equal(set("B", "agents-only", APP_CONFIG_AGENT, true), 0);
    assert_int_equal(list().version, 1);
    assert_int_equal(list().items[1].version, 0);
    assert_int_equal(set("A", "two", APP_CONFIG_BOTH, false), 0);
    assert_int_equal(list().version, 2);
    assert_int_equal(vault_config_set(&vault, &app, &scope_only, &created, &changed, &e), 0);
    assert_int_equal(list().version, 3);
    assert_string_equal(list().items[0].value, "two");
    assert_int_equal(vault_config_remove(&vault, &app, STR("B"), false, &e), 0);
    assert_int_equal(list().version, 3);
    assert_int_equal(set("C", "c", APP_CONFIG_RUNTIME, true), 0);
    assert_int_equal(vault_config_remove(&vault, &app, STR("C"), false, &e), 0);
    assert_int_equal(list().version, 5);
    assert_int_equal(vault_config_remove(&vault, &app, STR("C"), false, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    assert_int_equal(vault_config_changes(&vault), 7);
}

static void a_sensitive_value_is_not_opened_without_being_sent(void **state)
{
    (void)state;
    assert_int_equal(set("A", NULL, APP_CONFIG_RUNTIME, true), -1);
    assert_int_equal(e.code, ERR_INVALID);
    assert_int_equal(set("A", "secret-one", APP_CONFIG_RUNTIME, true), 0);
    assert_int_equal(set("A", NULL, APP_CONFIG_RUNTIME, false), -1);
    assert_null(strstr(e.msg, "secret-one"));
    assert_int_equal(set("A", "secret-one", APP_CONFIG_RUNTIME, false), 0);
    assert_string_equal(list().items[0].value, "secret-one");
}

static void too_much_is_refused(void **state)
{
    BUF_AUTO(value, APP_CONFIG_VALUE_BYTES_MAX + 1);
    struct app_config_change c = {.key = "NUL", .value = STR("a\0b")};
    (void)state;
    for (size_t i = 0; i < APP_CONFIG_VALUE_BYTES_MAX; i++) {
        buf_putc(&value, 'v');
    }
    assert_int_equal(set("A", value.ptr, APP_CONFIG_RUNTIME, true), 0);
    assert_int_equal(set("B", value.ptr, APP_CONFIG_RUNTIME, true), -1);
    assert_int_equal(e.code, ERR_LIMIT);
    assert_int_equal(list().version, 1);
    buf_putc(&value, 'v');
    assert_int_equal(set("A", value.ptr, APP_CONFIG_RUNTIME, true), -1);
    assert_int_equal(e.code, ERR_INVALID);
    assert_int_equal(vault_config_set(&vault, &app, &c, &created, &changed, &e), -1);
    for (int i = 1; i < APP_CONFIG_COUNT_MAX; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "K%d", i);
        assert_int_equal(set(key, "", APP_CONFIG_AGENT, false), 0);
    }
    assert_int_equal(set("ONE_MORE", "", APP_CONFIG_AGENT, false), -1);
    assert_int_equal(e.code, ERR_LIMIT);
    assert_int_equal(set("K1", "may change", APP_CONFIG_AGENT, false), 0);
}

static struct record parse(struct buf *frames)
{
    struct record r;
    struct str frame;
    assert_int_equal(record_next(frames, &frame, NULL), 1);
    assert_int_equal(record_parse(frame, &r, NULL), 0);
    return r;
}

static void each_gets_what_is_for_it(void **state)
{
    BUF_AUTO(frames, RECORD_FRAME_MAX + 4);
    const char *const *env = NULL;
    struct str value;
    size_t pos = 0;
    int64_t version = 0;
    (void)state;
    assert_int_equal(set("OPEN", "open", APP_CONFIG_RUNTIME, false), 0);
    assert_int_equal(set("SECRET", "a-secret", APP_CONFIG_BOTH, true), 0);
    assert_int_equal(set("HINT", "a-hint-of-it", APP_CONFIG_AGENT, true), 0);
    struct record_writer w = record_begin(&frames, "configure");
    assert_int_equal(vault_config_add(&vault, &app, &w, &version, &e), 0);
    assert_true(record_end(&w));
    struct record r = parse(&frames);
    assert_int_equal(version, 2);
    assert_true(str_is(record_get(&r, "config_version"), "2"));
    assert_true(str_is(record_get(&r, "config"), "OPEN=open"));
    assert_true(str_is(record_get(&r, "secret"), "SECRET=a-secret"));
    assert_true(str_is(record_get(&r, "mask"), "a-hint-of-it"));
    buf_reset(&frames);
    w = record_begin(&frames, "configure");
    assert_int_equal(vault_config_add_masks(&vault, &app, 1, &w, &e), 0);
    assert_true(record_end(&w));
    r = parse(&frames);
    assert_true(str_is(record_get(&r, "config_version"), "1"));
    assert_null(record_get(&r, "secret").ptr);
    assert_null(record_get(&r, "config").ptr);
    assert_true(record_each_of(&r, &pos, "mask", &value));
    assert_true(record_each_of(&r, &pos, "mask", &value));
    assert_false(record_each_of(&r, &pos, "mask", &value));
    assert_int_equal(vault_config_agent_env(&vault, &app, arena, &env, &e), 0);
    assert_string_equal(env[0], "HINT=a-hint-of-it");
    assert_string_equal(env[1], "SECRET=a-secret");
    assert_null(env[2]);
}

static void a_mask_takes_all_sensitive_ones(void **state)
{
    BUF_AUTO(out, 256);
    struct mask *none = NULL;
    (void)state;
    assert_int_equal(set("OPEN", "open-value", APP_CONFIG_RUNTIME, false), 0);
    assert_int_equal(vault_config_mask(&vault, &app, &none, &e), 0);
    assert_null(none);
    assert_int_equal(set("A", "a-secret", APP_CONFIG_RUNTIME, true), 0);
    assert_int_equal(set("B", "b-secret", APP_CONFIG_AGENT, true), 0);
    struct mask *m AUTO(mask) = NULL;
    assert_int_equal(vault_config_mask(&vault, &app, &m, &e), 0);
    mask_text(m, STR("open-value a-secret b-secret"), &out);
    assert_string_equal(out.ptr, "open-value *** ***");
}

static void assert_shown(const char *text, const char *expected)
{
    BUF_AUTO(out, 256);
    struct mask *m AUTO(mask) = NULL;
    assert_int_equal(vault_config_mask(&vault, &app, &m, &e), 0);
    mask_text(m, str_of(text), &out);
    assert_string_equal(out.ptr, expected);
}

/* What processes run with is masked until they are gone, and no longer. */
static void what_was_taken_away_is_masked_while_it_is_used(void **state)
{
    struct app_config_change c = {.key = "A", .value = STR("second-one"), .is_running = true};
    (void)state;
    assert_int_equal(set("A", "first-one", APP_CONFIG_RUNTIME, true), 0);
    assert_int_equal(vault_config_set(&vault, &app, &c, &created, &changed, &e), 0);
    assert_shown("first-one second-one", "*** ***");
    assert_int_equal(vault_config_remove(&vault, &app, STR("A"), true, &e), 0);
    assert_shown("first-one second-one", "*** ***");
    assert_int_equal(app_config_forget(db, &app, 2, &e), 0);
    assert_shown("first-one second-one", "first-one ***");
    assert_int_equal(app_config_forget(db, &app, 3, &e), 0);
    assert_shown("first-one second-one", "first-one second-one");
    /* Nobody runs with it. */
    assert_int_equal(set("A", "third-one", APP_CONFIG_RUNTIME, true), 0);
    assert_int_equal(vault_config_remove(&vault, &app, STR("A"), false, &e), 0);
    assert_shown("third-one", "third-one");
}

static void not_for_ever_more_of_them(void **state)
{
    struct app_config_change c = {.key = "A", .is_running = true};
    char text[32];
    (void)state;
    assert_int_equal(set("A", "value-0", APP_CONFIG_RUNTIME, true), 0);
    for (int i = 0; i <= APP_CONFIG_FORMER_MAX; i++) {
        (void)snprintf(text, sizeof(text), "value-%c", 'a' + i);
        c.value = str_of(text);
        assert_int_equal(vault_config_set(&vault, &app, &c, &created, &changed, &e), 0);
    }
    assert_shown("value-0 value-a value-b", "value-0 *** ***");
}

static void it_goes_with_its_app(void **state)
{
    struct app_config config;
    (void)state;
    assert_int_equal(set("A", "a-secret", APP_CONFIG_RUNTIME, true), 0);
    assert_int_equal(apps_mark_deleting(db, &app, &e), 0);
    assert_int_equal(set("A", "b-secret", APP_CONFIG_RUNTIME, true), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    assert_int_equal(apps_delete(db, &app, &e), 0);
    assert_int_equal(vault_config_list(&vault, &app, arena, &config, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    struct db_conn *conn = db_read_begin(db);
    struct db_rows *rows = db_query(conn, &e, "SELECT count(*) FROM app_config", "");
    assert_int_equal(db_next(rows, &e), 1);
    assert_int_equal(db_int(rows, 0), 0);
    db_rows_end(rows);
    db_read_end(db, conn);
}

#define WITH_APP(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_judged),
        WITH_APP(a_value_is_sealed_and_bound_to_its_place),
        WITH_APP(versions_rise_with_what_processes_see),
        WITH_APP(a_sensitive_value_is_not_opened_without_being_sent),
        WITH_APP(too_much_is_refused),
        WITH_APP(each_gets_what_is_for_it),
        WITH_APP(a_mask_takes_all_sensitive_ones),
        WITH_APP(what_was_taken_away_is_masked_while_it_is_used),
        WITH_APP(not_for_ever_more_of_them),
        WITH_APP(it_goes_with_its_app),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
