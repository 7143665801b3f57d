/*
 * Tests of slices and of the parsers of numbers. One thread.
 */
#include "lib/str.h"
#include "tests/unit/lib/test.h"

static void test_compare(void **state)
{
    (void)state;
    struct str none = {NULL, 0};
    assert_true(str_eq(none, STR("")));
    assert_true(str_is(STR("abc"), "abc"));
    assert_false(str_is(STR("abc"), "ab"));
    assert_false(str_is(STR("a\0c"), "a"));
    assert_true(str_eq_nocase(STR("Content-Length"), STR("content-LENGTH")));
    assert_false(str_eq_nocase(STR("\xC3\x84"), STR("\xC3\xA4")));
    assert_false(str_eq_nocase(STR("@"), STR("`")));
    assert_true(str_starts(STR("abc"), STR("ab")));
    assert_false(str_starts(STR("a"), STR("ab")));
    assert_true(str_ends(STR("abc"), STR("bc")));
    assert_false(str_ends(STR("c"), STR("bc")));
    assert_true(str_eq_secret(STR("secret"), STR("secret")));
    assert_false(str_eq_secret(STR("secret"), STR("secres")));
    assert_false(str_eq_secret(STR("secret"), STR("secret1")));
    assert_true(str_eq_secret(none, STR("")));
}

static void test_find(void **state)
{
    (void)state;
    struct str none = {NULL, 0};
    assert_int_equal(str_find(STR("a:b:c"), ':'), 1);
    assert_int_equal(str_find(STR("abc"), ':'), -1);
    assert_int_equal(str_find(none, 'a'), -1);
    assert_true(str_contains(STR("hello"), STR("ell")));
    assert_false(str_contains(STR("hello"), STR("")));
    assert_false(str_contains(STR("he"), STR("hello")));
}

static void test_cut_and_trim(void **state)
{
    (void)state;
    test_str(str_cut(STR("hello"), 1, 3), "el");
    test_str(str_cut(STR("hello"), 3, 1), "");
    test_str(str_cut(STR("hello"), 3, SIZE_MAX), "lo");
    test_str(str_cut(STR("hello"), 9, 12), "");
    test_str(str_trim(STR(" \t\r\n a b \n")), "a b");
    test_str(str_trim(STR("  ")), "");
}

static void test_split(void **state)
{
    (void)state;
    struct str rest = STR("a,,b,");
    struct str part;
    static const char *const want[] = {"a", "", "b", ""};
    for (size_t i = 0; i < 4; i++) {
        assert_true(str_split(&rest, ',', &part));
        test_str(part, want[i]);
    }
    assert_false(str_split(&rest, ',', &part));
}

static void test_u64(void **state)
{
    (void)state;
    uint64_t v = 7;
    assert_true(str_to_u64(STR("0"), UINT64_MAX, &v));
    assert_int_equal(v, 0);
    assert_true(str_to_u64(STR("18446744073709551615"), UINT64_MAX, &v));
    assert_true(v == UINT64_MAX);
    assert_true(str_to_u64(STR("65535"), 65535, &v));
    static const char *const bad[] = {"",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "01",
                                      "00",
                                      "1e3",
                                      "0x10",
                                      "1.0",
                                      "1\n2",
                                      "\xD9\xA1",
                                      "65536",
                                      "18446744073709551616",
                                      "99999999999999999999",
                                      "100000000000000000000"};
    v = 7;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(str_to_u64(str_of(bad[i]), 65535, &v));
    }
    assert_false(str_to_u64(STR("1\0"), UINT64_MAX, &v));
    assert_false(str_to_u64(STR("18446744073709551616"), UINT64_MAX, &v));
    assert_int_equal(v, 7);
}

static void test_i64(void **state)
{
    (void)state;
    int64_t v = 0;
    assert_true(str_to_i64(STR("-9223372036854775808"), INT64_MIN, INT64_MAX, &v));
    assert_true(v == INT64_MIN);
    assert_true(str_to_i64(STR("9223372036854775807"), INT64_MIN, INT64_MAX, &v));
    assert_true(v == INT64_MAX);
    assert_false(str_to_i64(STR("9223372036854775808"), INT64_MIN, INT64_MAX, &v));
    assert_false(str_to_i64(STR("-9223372036854775809"), INT64_MIN, INT64_MAX, &v));
    assert_false(str_to_i64(STR("--1"), INT64_MIN, INT64_MAX, &v));
    assert_false(str_to_i64(STR("-"), INT64_MIN, INT64_MAX, &v));
    assert_false(str_to_i64(STR("5"), 6, 9, &v));
    assert_false(str_to_i64(STR("10"), 6, 9, &v));
}

static void test_bool(void **state)
{
    (void)state;
    static const char *const yes[] = {"true", "1", "yes", "on", "TRUE", "On"};
    static const char *const no[] = {"false", "0", "no", "off", "False"};
    static const char *const bad[] = {"", "y", "enabled", "true ", "2", "-1"};
    bool v = false;
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        v = false;
        assert_true(str_to_bool(str_of(yes[i]), &v) && v);
    }
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        v = true;
        assert_true(str_to_bool(str_of(no[i]), &v) && !v);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(str_to_bool(str_of(bad[i]), &v));
    }
}

static void test_utf8(void **state)
{
    (void)state;
    static const char *const good[] = {"",
                                       "abc",
                                       "\xC3\xA4",
                                       "\xE2\x82\xAC",
                                       "\xF0\x9F\x98\x80",
                                       "\xF4\x8F\xBF\xBF",
                                       "\xED\x9F\xBF",
                                       "\x01"};
    static const char *const bad[] = {
        "\x80",         "\xC3",         "\xC0\x80",         "\xC1\xBF",         "\xE0\x80\x80",
        "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
        "\xFF",         "a\xE2\x82",    "\xE2\x28\xA1",     "\xF0\x9F\x98"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(str_is_utf8(str_of(good[i])));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(str_is_utf8(str_of(bad[i])));
        assert_false(str_is_text(str_of(bad[i]), true));
    }
    assert_true(str_is_utf8(STR("a\0b")));
    assert_false(str_is_text(STR("a\0b"), true));
    assert_true(str_is_text(STR("a\tb\r\nc"), true));
    assert_false(str_is_text(STR("a\nb"), false));
    assert_false(str_is_text(STR("\x1B[31m"), true));
    assert_false(str_is_text(STR("\x7F"), true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare),      cmocka_unit_test(test_find),
        cmocka_unit_test(test_cut_and_trim), cmocka_unit_test(test_split),
        cmocka_unit_test(test_u64),          cmocka_unit_test(test_i64),
        cmocka_unit_test(test_bool),         cmocka_unit_test(test_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
