/*
 * Tests of settings from the environment: every wrong value is one line that names the setting,
 * what was found and what is accepted. One thread.
 */
#include <stdio.h>
#include <unistd.h>

#include "lib/env.h"
#include "tests/unit/lib/test.h"

#define NAME "SANDBOXD_UNIT_TEST"

/* The whole environment of the test; NULL: empty. */
static void set(const char *value)
{
    static char text[8192];
    static char *variables[2];
    (void)snprintf(text, sizeof(text), NAME "=%s", value ? value : "");
    variables[0] = value ? text : NULL;
    environ = variables;
}

static void complains(const struct err *e, const char *found)
{
    assert_int_equal(e->code, ERR_INVALID);
    assert_non_null(strstr(e->msg, NAME));
    assert_non_null(strstr(e->msg, found));
    assert_null(strchr(e->msg, '\n'));
}

static void test_unset_and_empty(void **state)
{
    (void)state;
    uint64_t n = 0;
    bool b = false;
    uint16_t port = 0;
    struct err e;
    set(NULL);
    for (int round = 0; round < 2; round++) {
        assert_string_equal(env_text(NAME, "default"), "default");
        assert_int_equal(env_u64(NAME, 5, 10, 7, &n, &e), 0);
        assert_int_equal(n, 7);
        assert_int_equal(env_bool(NAME, true, &b, &e), 0);
        assert_true(b);
        assert_int_equal(env_port(NAME, 9090, &port, &e), 0);
        assert_int_equal(port, 9090);
        assert_int_equal(env_bytes(NAME, 1, 100, 50, &n, &e), 0);
        assert_int_equal(n, 50);
        set("");
    }
}

static void test_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = {"4", "11", "x", "7 ", "-7", "0x7", "7.0", "1e1", "07"};
    uint64_t n = 99;
    struct err e;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        set(bad[i]);
        assert_int_equal(env_u64(NAME, 5, 10, 7, &n, &e), -1);
        complains(&e, bad[i]);
        assert_non_null(strstr(e.msg, "5 to 10"));
    }
    assert_int_equal(n, 99);
    set("10");
    assert_int_equal(env_u64(NAME, 5, 10, 7, &n, &e), 0);
    assert_int_equal(n, 10);
}

static void test_booleans_and_ports(void **state)
{
    (void)state;
    bool b = true;
    uint16_t port = 1;
    struct err e;
    set("Off");
    assert_int_equal(env_bool(NAME, true, &b, &e), 0);
    assert_false(b);
    set("maybe");
    assert_int_equal(env_bool(NAME, true, &b, &e), -1);
    complains(&e, "maybe");
    static const char *const bad[] = {"0", "65536", "http", "80 "};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        set(bad[i]);
        assert_int_equal(env_port(NAME, 80, &port, &e), -1);
        complains(&e, bad[i]);
    }
    set("65535");
    assert_int_equal(env_port(NAME, 80, &port, &e), 0);
    assert_int_equal(port, 65535);
}

static void test_bytes(void **state)
{
    (void)state;

    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"1048576", 1048576}, {"1024k", 1048576}, {"64m", 64ULL << 20}, {"2G", 2ULL << 30}};

    static const char *const bad[] = {
        "m", "1.5g", "-1m", "1mb", "1 g", "5g", "1023k", "17179869184g", "18446744073709551615g"};
    uint64_t n = 0;
    struct err e;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        set(good[i].text);
        assert_int_equal(env_bytes(NAME, 1 << 20, 4ULL << 30, 1, &n, &e), 0);
        assert_true(n == good[i].bytes);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        set(bad[i]);
        assert_int_equal(env_bytes(NAME, 1 << 20, 4ULL << 30, 1, &n, &e), -1);
        complains(&e, bad[i]);
    }
}

/* A value of any length is cut, not written behind the message. */
static void test_long_value(void **state)
{
    (void)state;
    static char text[5000];
    uint64_t n = 0;
    struct err e;
    memset(text, '9', sizeof(text) - 1);
    set(text);
    assert_int_equal(env_u64(NAME, 0, 10, 0, &n, &e), -1);
    assert_non_null(strstr(e.msg, "0 to 10"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unset_and_empty),    cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_booleans_and_ports), cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_long_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
