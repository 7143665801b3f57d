/*
 * Tests of how an always_on sandbox is kept up: pauses that grow, a person's stop, an end that is
 * one. One thread.
 */
#include "control/sandbox/table.h"
#include "tests/unit/control/test.h"

static struct sandbox down(void)
{
    return (struct sandbox){.status = SANDBOX_STOPPED, .idle = {.always_on = true}};
}

static void ends(struct sandbox *b, const char *tag)
{
    b->status = SANDBOX_STOPPED;
    (void)err_set(&b->outcome, ERR_UNAVAILABLE, 0, "it ended");
    (void)err_tag(&b->outcome, tag);
}

/* As the start job does. */
static void comes_up(struct sandbox *b, int64_t now_ms)
{
    b->keeper.asked = true;
    b->status = SANDBOX_RUNNING;
    assert_int_equal(keeper_look(b, now_ms), KEEPER_WAIT);
}

static void test_starts_at_once_at_boot(void **state)
{
    (void)state;
    struct sandbox b = down();
    assert_int_equal(keeper_look(&b, 5), KEEPER_START);
    b.idle.always_on = false;
    assert_int_equal(keeper_look(&b, 5), KEEPER_WAIT);
}

static void test_leaves_alone(void **state)
{
    (void)state;
    struct sandbox b = down();
    b.idle.stays_stopped = true;
    assert_int_equal(keeper_look(&b, 5), KEEPER_WAIT);
    b = down();
    b.working = true;
    assert_int_equal(keeper_look(&b, 5), KEEPER_WAIT);
    b = down();
    b.want = WANT_DELETE;
    assert_int_equal(keeper_look(&b, 5), KEEPER_WAIT);
    b = down();
    b.gone = true;
    assert_int_equal(keeper_look(&b, 5), KEEPER_WAIT);
    b = down();
    b.status = SANDBOX_DELETING;
    assert_int_equal(keeper_look(&b, 5), KEEPER_WAIT);
}

static void test_pauses_grow_and_end(void **state)
{
    (void)state;
    static const int64_t pauses_s[] = {1, 2, 4, 8, 16, 32, 64};
    struct sandbox b = down();
    int64_t now_ms = 1000;
    for (size_t i = 0; i < ARRAY_LEN(pauses_s); i++) {
        comes_up(&b, now_ms);
        now_ms += 100;
        ends(&b, "ended");
        assert_int_equal(keeper_look(&b, now_ms), KEEPER_WAIT);
        assert_int_equal(keeper_look(&b, now_ms + pauses_s[i] * 1000 - 1), KEEPER_WAIT);
        now_ms += pauses_s[i] * 1000;
        assert_int_equal(keeper_look(&b, now_ms), KEEPER_START);
    }
    comes_up(&b, now_ms);
    ends(&b, "ended");
    assert_int_equal(keeper_look(&b, now_ms), KEEPER_GIVE_UP);
    assert_int_equal(keeper_look(&b, now_ms + 86400000), KEEPER_WAIT);
    /* A visitor woke it, and it ended the same way: not eight times more. */
    b.status = SANDBOX_RUNNING;
    assert_int_equal(keeper_look(&b, now_ms), KEEPER_WAIT);
    ends(&b, "ended");
    assert_int_equal(keeper_look(&b, now_ms + 100), KEEPER_GIVE_UP);
}

/* What is not the app's fault is tried for as long as it takes, at most every five minutes. */
static void test_never_gives_up_on_the_machine(void **state)
{
    (void)state;
    struct sandbox b = down();
    int64_t now_ms = 1000;
    for (int i = 0; i < 30; i++) {
        b.keeper.asked = true;
        ends(&b, "no_memory");
        assert_int_equal(keeper_look(&b, now_ms), KEEPER_WAIT);
        now_ms += 300000;
        assert_int_equal(keeper_look(&b, now_ms), KEEPER_START);
    }
}

static void test_stable_counts_anew(void **state)
{
    (void)state;
    struct sandbox b = down();
    b.keeper.tries = 7;
    comes_up(&b, 1000);
    assert_int_equal(b.keeper.tries, 7);
    assert_int_equal(keeper_look(&b, 1000 + 600000), KEEPER_WAIT);
    ends(&b, "ended");
    assert_int_equal(keeper_look(&b, 700000), KEEPER_WAIT);
    assert_int_equal(b.keeper.tries, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_starts_at_once_at_boot),
        cmocka_unit_test(test_leaves_alone),
        cmocka_unit_test(test_pauses_grow_and_end),
        cmocka_unit_test(test_never_gives_up_on_the_machine),
        cmocka_unit_test(test_stable_counts_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
