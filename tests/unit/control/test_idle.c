/*
 * Tests of the rules by which a sandbox sleeps: threshold, use, keep-alive, policy. One thread.
 */
#include "control/sandbox/table.h"
#include "tests/unit/control/test.h"

#define INSTALLATION_S 100
#define NOW_MS         1000000

static const struct config config = {.idle_threshold_s = INSTALLATION_S};

static struct sandbox running(int64_t unused_s)
{
    return (struct sandbox){.status = SANDBOX_RUNNING, .last_active_ms = NOW_MS - unused_s * 1000};
}

static bool due(const struct sandbox *b)
{
    struct sandbox_service s = {.config = &config};
    return idle_is_due(&s, b, NOW_MS);
}

static void test_threshold(void **state)
{
    (void)state;
    struct sandbox b = running(INSTALLATION_S);
    assert_true(due(&b));
    b = running(INSTALLATION_S - 1);
    assert_false(due(&b));
    assert_int_equal(idle_sleeps_at_ms(&b, INSTALLATION_S), NOW_MS + 1000);
    b.idle.threshold_s = 10;
    assert_true(due(&b));
    b = running(INSTALLATION_S);
    b.idle.threshold_s = INSTALLATION_S * 2;
    assert_false(due(&b));
}

/* An app's own threshold counts where the installation has none. */
static void test_off(void **state)
{
    (void)state;
    struct sandbox b = running(1000);
    assert_int_equal(idle_sleeps_at_ms(&b, 0), 0);
    b.idle.threshold_s = 10;
    assert_true(idle_sleeps_at_ms(&b, 0) > 0);
}

static void test_use(void **state)
{
    (void)state;
    struct sandbox b = running(1000);
    b.holds = 1;
    assert_false(due(&b));
    b.holds = 0;
    b.open_connections = 1;
    assert_false(due(&b));
    assert_int_equal(idle_sleeps_at_ms(&b, INSTALLATION_S), 0);
    b.open_connections = 0;
    assert_true(due(&b));
    b.idle.not_before_ms = NOW_MS + 1;
    assert_false(due(&b));
}

static void test_keep_alive(void **state)
{
    (void)state;
    struct sandbox b = running(1000);
    b.idle.keep_alive_ms = NOW_MS + 5000;
    assert_false(due(&b));
    assert_int_equal(idle_sleeps_at_ms(&b, INSTALLATION_S), NOW_MS + 5000);
    b.idle.keep_alive_ms = NOW_MS;
    assert_true(due(&b));
    /* It never shortens. */
    b = running(0);
    b.idle.keep_alive_ms = NOW_MS + 5000;
    assert_int_equal(idle_sleeps_at_ms(&b, INSTALLATION_S), NOW_MS + INSTALLATION_S * 1000);
}

static void test_always_on(void **state)
{
    (void)state;
    struct sandbox b = running(1000000);
    b.idle.always_on = true;
    b.idle.threshold_s = 10;
    assert_int_equal(idle_threshold_ms(&b.idle, INSTALLATION_S), 0);
    assert_false(due(&b));
}

static void test_only_what_runs(void **state)
{
    (void)state;
    for (int status = SANDBOX_CREATING; status <= SANDBOX_DELETED; status++) {
        struct sandbox b = running(1000);
        b.status = (enum sandbox_status)status;
        assert_int_equal(due(&b), status == SANDBOX_RUNNING);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threshold), cmocka_unit_test(test_off),
        cmocka_unit_test(test_use),       cmocka_unit_test(test_keep_alive),
        cmocka_unit_test(test_always_on), cmocka_unit_test(test_only_what_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
