/*
 * Tests of tickets to previews. One thread.
 */
#include "control/sandbox/tickets.h"
#include "lib/mem.h"
#include "tests/unit/control/test.h"

#define SESSION "0123456789abcdef0123456789abcdef"

static struct tickets *tickets;
static struct ulid mine, other;

static int setup(void **state)
{
    (void)state;
    tickets = tickets_new();
    mine = ulid_new();
    other = ulid_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tickets_free(tickets);
    return 0;
}

static void test_good_once(void **state)
{
    char session[ACCESS_SESSION_BYTES];
    BUF_AUTO(ticket, 128);
    (void)state;
    tickets_issue(tickets, &mine, SESSION, 1000, &ticket);
    assert_int_equal(ticket.len, 43);
    assert_true(tickets_take(tickets, buf_str(&ticket), &mine, 1000, session));
    assert_string_equal(session, SESSION);
    assert_false(tickets_take(tickets, buf_str(&ticket), &mine, 1000, session));
    assert_false(tickets_take(tickets, STR(""), &mine, 1000, session));
}

static void test_for_thirty_seconds(void **state)
{
    char session[ACCESS_SESSION_BYTES];
    BUF_AUTO(early, 128);
    BUF_AUTO(late, 128);
    (void)state;
    tickets_issue(tickets, &mine, "", 1000, &early);
    tickets_issue(tickets, &mine, "", 1000, &late);
    assert_true(tickets_take(tickets, buf_str(&early), &mine, 30999, session));
    assert_string_equal(session, "");
    assert_false(tickets_take(tickets, buf_str(&late), &mine, 31000, session));
}

/* Shown at another sandbox it is spent: somebody tries it out. */
static void test_for_one_sandbox(void **state)
{
    char session[ACCESS_SESSION_BYTES];
    BUF_AUTO(ticket, 128);
    (void)state;
    tickets_issue(tickets, &mine, SESSION, 1000, &ticket);
    assert_false(tickets_take(tickets, buf_str(&ticket), &other, 1000, session));
    assert_false(tickets_take(tickets, buf_str(&ticket), &mine, 1000, session));
}

static void test_the_oldest_goes(void **state)
{
    char session[ACCESS_SESSION_BYTES];
    BUF_AUTO(first, 128);
    BUF_AUTO(second, 128);
    BUF_AUTO(more, 128);
    (void)state;
    tickets_issue(tickets, &mine, SESSION, 1000, &first);
    tickets_issue(tickets, &mine, SESSION, 1000, &second);
    for (int i = 0; i < TICKETS_MAX - 1; i++) {
        buf_reset(&more);
        tickets_issue(tickets, &mine, SESSION, 1000, &more);
    }
    assert_false(tickets_take(tickets, buf_str(&first), &mine, 1000, session));
    assert_true(tickets_take(tickets, buf_str(&second), &mine, 1000, session));
    assert_true(tickets_take(tickets, buf_str(&more), &mine, 1000, session));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_good_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_for_thirty_seconds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_for_one_sandbox, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_oldest_goes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
