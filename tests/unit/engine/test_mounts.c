/*
 * Tests of reading mountinfo, and of a swapped source against this process's own mounts. One
 * thread.
 */
#include <unistd.h>

#include "engine/mounts.h"
#include "tests/unit/engine/test.h"

static const char text[] =
    "1 0 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "22 1 254:0 /var/lib/sandboxed /var/lib/sandboxed ro - ext4 /dev/vda rw\n"
    "23 22 254:0 /var/lib/sandboxed/run/in /var/lib/sandboxed/run/in rw - ext4 /dev/vda rw\n"
    "30 1 0:50 / /tmp rw - tmpfs tmpfs rw\n"
    "31 1 254:0 /with\\040blank\\134 /odd\\040place rw - ext4 /dev/vda rw\n"
    "32 1 254:0 /first /home rw - ext4 /dev/vda rw\n"
    "33 1 254:0 /second /home rw - ext4 /dev/vda rw\n"
    "rubbish\n";

static void test_find(void **state)
{
    (void)state;
    struct mounts_line m;
    assert_true(mounts_find(str_of(text), "/home", &m));
    assert_string_equal(m.root, "/second"); /* the one on top */
    assert_true(mounts_find(str_of(text), "/odd place", &m));
    assert_string_equal(m.root, "/with blank\\");
    assert_false(mounts_find(str_of(text), "/hom", &m));
    assert_true(mounts_find_above(str_of(text), "/var/lib/sandboxed/workspaces/x", &m));
    assert_string_equal(m.target, "/var/lib/sandboxed");
    assert_true(mounts_find_above(str_of(text), "/var/lib/sandboxedx", &m));
    assert_string_equal(m.target, "/");
    assert_true(mounts_find_above(str_of(text), "/tmp", &m));
    assert_true(str_is(m.device, "0:50"));
    assert_false(mounts_find_above(STR(""), "/tmp", &m));
}

static void test_bad_lines(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "1 2 3 4", "1 2 3:4 /\\04 /a", "1 2 3:4 /\\999 /a"};
    struct mounts_line m;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(mounts_parse_line(str_of(bad[i]), &m));
    }
}

/* The container of this test is its own host: its root is mounted at /, so that /etc is not what
 * /home/sandbox must be. */
static void test_swapped(void **state)
{
    (void)state;
    struct config config = test_config();
    struct checks_sources sources = {.count = 1};
    struct err e = {0};
    config.data_dir = "/usr";
    sources.items[0] = (struct checks_source){.target = "/", .source = "/usr/lib"};
    assert_int_equal(mounts_verify(&config, getpid(), &sources, &e), -1);
    assert_int_equal(e.code, ERR_FORBIDDEN);
    assert_non_null(strstr(e.msg, "/usr/lib"));
    sources.items[0].target = "/usr/nothing";
    assert_int_equal(mounts_verify(&config, getpid(), &sources, &e), -1);
    assert_int_equal(e.code, ERR_FORBIDDEN);
    /* The mount of / is exactly the root of its file system here. */
    config.data_dir = "/proc";
    sources.items[0] = (struct checks_source){.target = "/proc", .source = "/proc"};
    assert_int_equal(mounts_verify(&config, getpid(), &sources, &e), 0);
}

#define OWN_ID "7ab8cf26f7a5ae5f00812349f8335c9311d6d95f1b313763748074673da7603e"

static void test_own_container(void **state)
{
    (void)state;
    char id[MOUNTS_ID_BYTES];
    assert_true(mounts_own_container(STR("9 1 254:0 /var/lib/docker/containers/" OWN_ID
                                         "/hostname /etc/hostname rw - ext4 d rw\n"),
                                     id));
    assert_string_equal(id, OWN_ID);
    assert_false(mounts_own_container(
        STR("9 1 254:0 /containers/X" OWN_ID "X/hostname /etc/hostname rw - ext4 d rw\n"), id));
    assert_false(
        mounts_own_container(STR("9 1 254:0 /hostname /etc/hostname rw - ext4 d rw\n"), id));
    assert_false(mounts_own_container(STR("9 1 254:0 / / rw - ext4 d rw\n"), id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_bad_lines),
        cmocka_unit_test(test_swapped),
        cmocka_unit_test(test_own_container),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
