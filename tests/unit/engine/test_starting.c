/*
 * Who is PID 1 while Docker says nothing: by the lines of the kernel, and only while it starts.
 */
#include <unistd.h>

#include "engine/starting.h"
#include "tests/unit/engine/test.h"

static void test_status(void **state)
{
    (void)state;
    assert_true(starting_status_is_init(STR("Name:\tx\nTgid:\t5\nNSpid:\t5123\t1\nNSpgid:\t1\n")));
    /* Another process of the container. */
    assert_false(starting_status_is_init(STR("Name:\tx\nNSpid:\t5123\t17\n")));
    assert_false(starting_status_is_init(STR("Name:\tx\nNSpid:\t5123\t11\n")));
    /* PID 1 of a namespace that somebody made inside. */
    assert_false(starting_status_is_init(STR("Name:\tx\nNSpid:\t5123\t17\t1\n")));
    assert_false(starting_status_is_init(STR("Name:\tx\nNSpid:\t5123\t1\t1\n")));
    /* A process of the host, even its PID 1. */
    assert_false(starting_status_is_init(STR("Name:\tx\nNSpid:\t1\n")));
    /* A name cannot hold a line of its own; a kernel without the line tells nothing. */
    assert_false(starting_status_is_init(STR("Name:\tNSpid:\\n5\t1\nPid:\t7\n")));
    assert_false(starting_status_is_init(STR("")));
    assert_false(starting_status_is_init(STR("NSpid:\t")));
}

static void test_only_while_it_starts(void **state)
{
    (void)state;
    struct inspect container = {.container_id = "0123456789ab", .request = {.uid = 7}};
    assert_true(ulid_parse(STR(TEST_ID), &container.id));
    assert_false(starting_is_init(&container.id, getpid(), 7));
    starting_begin(&container);
    /* It starts, but we are not in it. */
    assert_false(starting_is_init(&container.id, getpid(), 7));
    assert_false(starting_is_init(&container.id, 0, 7));
    assert_false(starting_is_init(&container.id, -1, 7));
    starting_end(&container);
    starting_end(&container);
    assert_false(starting_is_init(&container.id, getpid(), 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_only_while_it_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
