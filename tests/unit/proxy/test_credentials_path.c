/*
 * Tests of request targets and of the allowed paths of a provider. One thread.
 */
#include "proxy/credentials_path.h"
#include "tests/unit/proxy/test.h"

static void test_plain_targets(void **state)
{
    static const struct {
        const char *target, *provider, *path, *query;
    } cases[] = {
        {"/anthropic/v1/messages?beta=true", "anthropic", "/v1/messages", "?beta=true"},
        {"/zen/models/a-b_c.d:e", "zen", "/models/a-b_c.d:e", ""},
        {"/x/a%20b%41", NULL, NULL, NULL}, /* an escaped blank could become one */
        {"/x/a%41", "x", "/a%41", ""},
        {"/x/a/", "x", "/a/", ""},
        {"/x/a?b=/../%2f//", "x", "/a", "?b=/../%2f//"},
        {"/x/...", "x", "/...", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct credentials_target t;
        bool is_plain = credentials_target_parse(str_of(cases[i].target), &t);

        assert_int_equal(is_plain, cases[i].provider != NULL);
        if (is_plain) {
            assert_true(str_is(t.provider, cases[i].provider));
            assert_true(str_is(t.path, cases[i].path));
            assert_true(str_is(t.query, cases[i].query));
        }
    }
}

static void test_refused_targets(void **state)
{
    static const char *const cases[] = {
        "",
        "/",
        "//",
        "/x",
        "/x/",
        "x/y",
        "/x//y",
        "//x/y",
        "/x/../y",
        "/x/..",
        "/x/.",
        "/x/./y",
        "/../x/y",
        "/x/%2e%2e/y",
        "/x/%2E",
        "/x/a%2fb",
        "/x/a%2Fb",
        "/x/a%5cb",
        "/x/a\\b",
        "/x/a%00",
        "/x/a%0d%0a",
        "/x/a%",
        "/x/a%2",
        "/x/a%zz",
        "/x/a%252f",
        "/x/a b",
        "/x/a#b",
        "/x/a?b c",
        "/x/a?b#c",
        "/X/y",
        "/x.y/z",
        "/x%41/z",
        "http://h/x/y",
        "*",
        "/x/\x7f",
        "/x/\xc3\xa9",
        "/abcdefghijklmnopqrstuvwxyz0123456789/y",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct credentials_target t;

        if (credentials_target_parse(str_of(cases[i]), &t)) {
            fail_msg("taken: %s", cases[i]);
        }
    }
}

static void test_patterns(void **state)
{
    static const struct {
        const char *line, *method, *path;
        bool matches;
    } cases[] = {
        {"POST /v1/messages", "POST", "/v1/messages", true},
        {"POST /v1/messages", "GET", "/v1/messages", false},
        {"POST /v1/messages", "POST", "/v1/messages/", false},
        {"POST /v1/messages", "POST", "/v1/message", false},
        {"GET /models/*", "GET", "/models/a", true},
        {"GET /models/*", "GET", "/models/a:b", true},
        {"GET /models/*", "GET", "/models/", false},
        {"GET /models/*", "GET", "/models/a/b", false},
        {"GET /a/*/c", "GET", "/a/b/c", true},
        {"GET /a/*/c", "GET", "/a//c", false},
        {"GET /a/*/c", "GET", "/a/b/d", false},
        {"GET /*:*", "GET", "/ab:cd", true},
        {"GET /*:*", "GET", "/ab:", false},
        {"GET /*b", "GET", "/abab", true},
        {"GET", "GET", "/a", false},
        {"", "", "", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bool matches = credentials_path_matches(str_of(cases[i].line), str_of(cases[i].method),
                                                str_of(cases[i].path));

        if (matches != cases[i].matches) {
            fail_msg("%s against %s %s", cases[i].line, cases[i].method, cases[i].path);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_targets),
        cmocka_unit_test(test_refused_targets),
        cmocka_unit_test(test_patterns),
    };

    return RUN_TESTS(tests);
}
