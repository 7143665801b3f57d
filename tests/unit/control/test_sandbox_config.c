/*
 * Tests of what a supervisor is sent of an app's config: at hello, at a change, when it is applied;
 * by one that knows of none, too. One thread.
 */
#include "control/sandbox/table.h"
#include "control/vault/app_config.h"
#include "control/vault/vault_private.h"
#include "lib/mem.h"
#include "tests/unit/control/store.h"

static struct config config = {.preview_domain = "localhost"};
static struct vault vault;
static struct sandbox_service service;
static struct sandbox *box;
static struct buf told;

static void on_tell(void *ctx, const struct ulid *id, struct buf *frames)
{
    (void)ctx;
    assert_true(ulid_eq(id, &box->id));
    buf_add_str(&told, buf_str(frames));
    buf_wipe(frames);
}

static void on_changed(void *ctx, const struct ulid *id)
{
    (void)ctx;
    (void)id;
}

static void set(const char *key, const char *value, enum app_config_scope scope)
{
    struct app_config_change c = {
        .key = key, .value = str_of(value), .scope = scope, .set_scope = true};
    bool created = false;
    bool changed = false;
    assert_int_equal(vault_config_set(&vault, &box->app_id, &c, &created, &changed, &e), 0);
}

static int setup(void **state)
{
    static const uint8_t key[CRYPTO_KEY_BYTES] = {9};
    if (store_setup(state) != 0) {
        return -1;
    }
    vault = (struct vault){.db = db};
    crypto_master_init(&vault.master, key);
    (void)pthread_mutex_init(&vault.config_lock, NULL);
    service = (struct sandbox_service){.config = &config,
                                       .db = db,
                                       .vault = &vault,
                                       .broker_wake_fd = -1,
                                       .hooks = {.tell = on_tell, .changed = on_changed}};
    (void)pthread_mutex_init(&service.lock, NULL);
    (void)pthread_cond_init(&service.work, NULL);
    box = mem_alloc(sizeof(*box));
    box->id = ulid_new();
    box->app_id = ulid_new();
    box->status = SANDBOX_RUNNING;
    table_put(&service, box);
    buf_init(&told, 1 << 20);
    struct app_row row = {.id = box->app_id,
                          .name = "a",
                          .description = "",
                          .runtime_preset = "node-http",
                          .created_at = 1,
                          .updated_at = 1};
    if (apps_insert(db, &row, &e) != 0) {
        return -1;
    }
    set("KEY", "secret-one", APP_CONFIG_RUNTIME);
    return 0;
}

static int teardown(void **state)
{
    buf_done(&told);
    free(box);
    (void)pthread_mutex_destroy(&service.lock);
    (void)pthread_cond_destroy(&service.work);
    (void)pthread_mutex_destroy(&vault.config_lock);
    return store_teardown(state);
}

static struct record first_of(struct buf *frames)
{
    struct record r;
    struct str frame;
    assert_int_equal(record_next(frames, &frame, NULL), 1);
    assert_int_equal(record_parse(frame, &r, NULL), 0);
    return r;
}

/* A hello as a supervisor says it; version NULL: none is in force. The answer is in out. */
static struct record hello(bool knows_config, const char *version, struct buf *out)
{
    BUF_AUTO(frames, 4096);
    struct record_writer w = record_begin(&frames, "hello");
    record_adds(&w, "boot_id", "boot");
    if (knows_config) {
        record_addb(&w, "config", true);
    }
    record_adds(&w, "config_version", version);
    assert_true(record_end(&w));
    struct record r = first_of(&frames);
    buf_reset(out);
    assert_int_equal(sandbox_connected(&service, &box->id, &r, out, &e), 0);
    return first_of(out);
}

static void phase(const char *name, const char *version)
{
    BUF_AUTO(frames, 4096);
    struct record_writer w = record_begin(&frames, "phase");
    record_adds(&w, "phase", name);
    record_adds(&w, "config_version", version);
    assert_true(record_end(&w));
    struct record r = first_of(&frames);
    sandbox_report(&service, &box->id, &r);
}

static void a_boot_gets_all_of_it(void **state)
{
    BUF_AUTO(out, 1 << 17);
    (void)state;
    struct record r = hello(true, NULL, &out);
    assert_true(str_is(record_get(&r, "secret"), "KEY=secret-one"));
    assert_true(str_is(record_get(&r, "config_version"), "1"));
    assert_int_equal(box->config_version, -1);
    phase("starting", "1");
    assert_int_equal(box->config_version, 1);
}

static void one_that_comes_back_keeps_what_it_has(void **state)
{
    BUF_AUTO(out, 1 << 17);
    (void)state;
    set("KEY", "secret-two", APP_CONFIG_RUNTIME);
    struct record r = hello(true, "1", &out);
    assert_null(record_get(&r, "secret").ptr);
    assert_true(str_is(record_get(&r, "mask"), "secret-two"));
    assert_true(str_is(record_get(&r, "config_version"), "1"));
    assert_int_equal(box->config_version, 1);
}

static void an_older_one_gets_nothing_and_says_what_to_do(void **state)
{
    BUF_AUTO(out, 1 << 17);
    int64_t version = 0;
    (void)state;
    struct record r = hello(false, NULL, &out);
    assert_null(record_get(&r, "secret").ptr);
    assert_null(record_get(&r, "mask").ptr);
    assert_null(record_get(&r, "config_version").ptr);
    assert_non_null(record_get(&r, "web_port").ptr);
    assert_int_equal(sandbox_apply_config(&service, &box->id, &version, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_non_null(strstr(e.msg, "stop and start"));
    sandbox_config_changed(&service, &box->app_id);
    assert_int_equal(told.len, 0);
}

static void a_change_is_masked_at_once_and_applied_when_asked(void **state)
{
    BUF_AUTO(out, 1 << 17);
    int64_t version = 0;
    (void)state;
    (void)hello(true, NULL, &out);
    phase("running", "1");
    set("HINT", "for-an-agent", APP_CONFIG_AGENT);
    set("KEY", "secret-two", APP_CONFIG_RUNTIME);
    sandbox_config_changed(&service, &box->app_id);
    struct record r = first_of(&told);
    assert_null(record_get(&r, "secret").ptr);
    assert_true(str_is(record_get(&r, "mask"), "for-an-agent"));
    assert_true(str_is(record_get(&r, "config_version"), "1"));
    buf_reset(&told);
    assert_int_equal(sandbox_apply_config(&service, &box->id, &version, &e), 0);
    assert_int_equal(version, 2);
    r = first_of(&told);
    assert_true(str_is(record_get(&r, "secret"), "KEY=secret-two"));
    assert_true(str_is(record_get(&r, "config_version"), "2"));
    assert_int_equal(sandbox_config_outcome(&service, &box->id, version), SANDBOX_PENDING);
    phase("starting", "2");
    assert_int_equal(sandbox_config_outcome(&service, &box->id, version), SANDBOX_PENDING);
    phase("running", "2");
    assert_int_equal(sandbox_config_outcome(&service, &box->id, version), SANDBOX_DONE);
    /* Again: nothing is to be done. */
    buf_reset(&told);
    assert_int_equal(sandbox_apply_config(&service, &box->id, &version, &e), 0);
    assert_int_equal(told.len, 0);
}

/* The database is yesterday's: what runs has a number that is still to come. */
static void what_runs_may_be_ahead_of_a_backup(void **state)
{
    BUF_AUTO(out, 1 << 17);
    int64_t version = 0;
    (void)state;
    (void)hello(true, "9", &out);
    assert_int_equal(box->config_version, 9);
    assert_int_equal(sandbox_apply_config(&service, &box->id, &version, &e), 0);
    assert_int_equal(version, 1);
    struct record r = first_of(&told);
    assert_true(str_is(record_get(&r, "config_version"), "1"));
    assert_true(str_is(record_get(&r, "secret"), "KEY=secret-one"));
    assert_int_equal(sandbox_config_outcome(&service, &box->id, version), SANDBOX_PENDING);
    phase("running", "1");
    assert_int_equal(sandbox_config_outcome(&service, &box->id, version), SANDBOX_DONE);
}

static void one_that_was_lost_is_applied_at_the_next_hello(void **state)
{
    BUF_AUTO(out, 1 << 17);
    int64_t version = 0;
    (void)state;
    (void)hello(true, NULL, &out);
    phase("running", "1");
    set("KEY", "secret-two", APP_CONFIG_RUNTIME);
    assert_int_equal(sandbox_apply_config(&service, &box->id, &version, &e), 0);
    sandbox_disconnected(&service, &box->id);
    struct record r = hello(true, "1", &out);
    assert_true(str_is(record_get(&r, "secret"), "KEY=secret-two"));
    /* The next boot begins without one. */
    table_clear_reports(box);
    assert_int_equal(box->config_wanted, 0);
    box->status = SANDBOX_STOPPED;
    assert_int_equal(sandbox_apply_config(&service, &box->id, &version, &e), 0);
    assert_int_equal(sandbox_config_outcome(&service, &box->id, version), SANDBOX_DONE);
}

static void one_that_is_away_for_a_moment_gets_it_at_its_next_hello(void **state)
{
    BUF_AUTO(out, 1 << 17);
    int64_t version = 0;
    (void)state;
    (void)hello(true, NULL, &out);
    phase("running", "1");
    set("KEY", "secret-two", APP_CONFIG_RUNTIME);
    sandbox_disconnected(&service, &box->id);
    assert_int_equal(sandbox_apply_config(&service, &box->id, &version, &e), 0);
    assert_int_equal(told.len, 0);
    assert_int_equal(sandbox_config_outcome(&service, &box->id, version), SANDBOX_PENDING);
    struct record r = hello(true, "1", &out);
    assert_true(str_is(record_get(&r, "secret"), "KEY=secret-two"));
    phase("running", "2");
    assert_int_equal(sandbox_config_outcome(&service, &box->id, version), SANDBOX_DONE);
}

static void without_its_config_nothing_starts(void **state)
{
    BUF_AUTO(frames, 4096);
    BUF_AUTO(out, 1 << 17);
    static const uint8_t other[CRYPTO_KEY_BYTES] = {1};
    (void)state;
    crypto_master_init(&vault.master, other);
    struct record_writer w = record_begin(&frames, "hello");
    record_adds(&w, "boot_id", "boot");
    record_addb(&w, "config", true);
    assert_true(record_end(&w));
    struct record r = first_of(&frames);
    assert_int_equal(sandbox_connected(&service, &box->id, &r, &out, &e), -1);
    assert_non_null(strstr(e.msg, "the value of KEY"));
    assert_false(box->connected);
}

#define WITH_BOX(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BOX(a_boot_gets_all_of_it),
        WITH_BOX(one_that_comes_back_keeps_what_it_has),
        WITH_BOX(an_older_one_gets_nothing_and_says_what_to_do),
        WITH_BOX(a_change_is_masked_at_once_and_applied_when_asked),
        WITH_BOX(what_runs_may_be_ahead_of_a_backup),
        WITH_BOX(one_that_was_lost_is_applied_at_the_next_hello),
        WITH_BOX(one_that_is_away_for_a_moment_gets_it_at_its_next_hello),
        WITH_BOX(without_its_config_nothing_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
