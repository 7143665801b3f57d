/*
 * Tests of paths inside queries.
 */
#include "lib/mem.h"
#include "lib/url_path.h"
#include "tests/unit/lib/test.h"

static void test_local(void **state)
{
    static const char *const good[] = {"/",     "/a",   "/a/b?c=d&e=%2F%2F", "/.//a",
                                       "/a//b", "/:80", "/.sandboxdx",       "/%5cevil.com"};
    static const char *const bad[] = {
        "",      "a",    "//",    "//evil.com",      "/\\evil.com", "/a\\b",
        "/a b",  "/a#b", "/\t/a", "/a\r\nb",         "/\x7f",       "/\xc3\xa9",
        "http:", "?a",   " /a",   "/.sandboxd/enter"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(url_path_is_local(str_of(good[i])));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(url_path_is_local(str_of(bad[i])));
    }
    assert_false(url_path_is_local(str_n("/a\0b", 4)));
}

static void test_escapes(void **state)
{
    static const char *const bad[] = {"%", "%4", "%4g", "%g4", "a%", "%%41"};

    BUF_AUTO(out, 64);
    BUF_AUTO(back, 64);
    BUF_AUTO(small, 2);

    (void)state;
    assert_true(url_path_unescape(STR("/a%3Fb%3dc+d"), &out));
    assert_string_equal(out.ptr, "/a?b=c+d");
    url_path_escape(buf_str(&out), &back);
    assert_string_equal(back.ptr, "/a%3Fb%3Dc%2Bd");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        buf_reset(&out);
        assert_false(url_path_unescape(str_of(bad[i]), &out));
    }
    assert_false(url_path_unescape(STR("abc"), &small));
}

static void test_parameters(void **state)
{
    struct str value = STR("");

    (void)state;
    assert_true(url_path_parameter(STR("ticket=t&to=/a%26b"), STR("to"), &value));
    assert_int_equal(value.len, 6);
    assert_memory_equal(value.ptr, "/a%26b", 6);
    assert_true(url_path_parameter(STR("to="), STR("to"), &value));
    assert_int_equal(value.len, 0);
    assert_false(url_path_parameter(STR("to=/&to=/"), STR("to"), &value));
    assert_false(url_path_parameter(STR("xto=/"), STR("to"), &value));
    assert_false(url_path_parameter(STR("to"), STR("to"), &value));
    assert_false(url_path_parameter(STR(""), STR("to"), &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_local),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_parameters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
