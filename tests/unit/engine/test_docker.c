/*
 * Tests of the version negotiation, with answers recorded from real engines, and of the small
 * parsers. One thread.
 */
#include "engine/docker.h"
#include "tests/unit/engine/test.h"

/* GET /version of Debian 12's engine. */
static const char engine_20_10[] =
    "{\"Platform\":{\"Name\":\"\"},\"Components\":[{\"Name\":\"Engine\","
    "\"Version\":\"20.10.24+dfsg1\",\"Details\":{\"ApiVersion\":\"1.41\","
    "\"Arch\":\"amd64\",\"MinAPIVersion\":\"1.12\"}}],"
    "\"Version\":\"20.10.24+dfsg1\",\"ApiVersion\":\"1.41\","
    "\"MinAPIVersion\":\"1.12\",\"GitCommit\":\"5d6db84\",\"Os\":\"linux\"}";
/* Debian 13's. */
static const char engine_26_1[] = "{\"Version\":\"26.1.5+dfsg1\",\"ApiVersion\":\"1.45\","
                                  "\"MinAPIVersion\":\"1.24\",\"Os\":\"linux\"}";
/* Docker's own, 29.0: refuses anything below 1.44. */
static const char engine_29_0[] =
    "{\"Version\":\"29.0.0\",\"ApiVersion\":\"1.52\",\"MinAPIVersion\":\"1.44\",\"Os\":\"linux\"}";

static void test_pick(void **state)
{
    (void)state;

    static const struct {
        const char *answer;
        const char *engine;
        const char *api;
    } cases[] = {
        {engine_20_10, "20.10.24+dfsg1", "1.41"},
        {engine_26_1, "26.1.5+dfsg1", "1.45"},
        {engine_29_0, "29.0.0", "1.51"},
        {"{\"Version\":\"x\",\"ApiVersion\":\"1.41\"}", "x", "1.41"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct json_doc *doc AUTO(json_doc) = test_json(cases[i].answer);
        struct docker_version version;
        struct err e;
        assert_int_equal(docker_pick_version(json_root(doc), &version, &e), 0);
        assert_string_equal(version.engine, cases[i].engine);
        assert_string_equal(version.api, cases[i].api);
    }
}

static void test_pick_refused(void **state)
{
    (void)state;

    static const struct {
        const char *answer;
        const char *word;
    } cases[] = {
        {"{\"Version\":\"19.03.15\",\"ApiVersion\":\"1.40\",\"MinAPIVersion\":\"1.12\"}", "1.41"},
        {"{\"Version\":\"40\",\"ApiVersion\":\"1.80\",\"MinAPIVersion\":\"1.60\"}", "upgrade"},
        {"{\"Version\":\"40\",\"ApiVersion\":\"2.0\"}", "not Docker"},
        {"{\"message\":\"page not found\"}", "not Docker"},
        {"[]", "not Docker"},
        {"{\"Version\":\"x\",\"ApiVersion\":141}", "not Docker"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct json_doc *doc AUTO(json_doc) = test_json(cases[i].answer);
        struct docker_version version;
        struct err e;
        assert_int_equal(docker_pick_version(json_root(doc), &version, &e), -1);
        assert_int_equal(e.code, ERR_UNAVAILABLE);
        assert_non_null(strstr(e.msg, cases[i].word));
    }
}

static void test_time(void **state)
{
    (void)state;

    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"1970-01-01T00:00:01Z", 1000},
        {"2026-11-29T19:35:41.446123456Z", 1795980941446},
        {"2026-11-29T19:35:41.4Z", 1795980941400},
        {"2026-11-29T20:35:41.446+01:00", 1795980941446},
        {"2026-11-29T18:05:41.446-01:30", 1795980941446},
        {"0001-01-01T00:00:00Z", 0},
        {"", 0},
        {"2026-11-29", 0},
        {"2026-11-29T19:35:41", 0},
        {"2026-13-29T19:35:41Z", 0},
        {"2026-11-29T19:35:41Zjunk", 0},
        {"2026-11-29 19:35:41Z", 0},
        {"rubbish that is long enough", 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(docker_time_ms(str_of(cases[i].text)), cases[i].ms);
    }
    assert_int_equal(docker_time_ms((struct str){0}), 0);
}

static void test_encode(void **state)
{
    (void)state;
    BUF_AUTO(out, 256);
    docker_encode(&out, STR("{\"a\":[\"b/c ä\"]}&x=1#\n"));
    assert_string_equal(out.ptr, "%7B%22a%22%3A%5B%22b%2Fc%20%C3%A4%22%5D%7D%26x%3D1%23%0A");
}

static void test_ping_of_an_engine_that_never_answered(void **state)
{
    struct docker *d AUTO(docker) = docker_new("/nonexistent/docker.sock");
    struct docker_version version;
    struct err e;

    (void)state;
    assert_int_equal(docker_ping(d, &version, &e), -1);
    assert_int_equal(e.code, ERR_UNAVAILABLE);
}

static void test_unreachable(void **state)
{
    (void)state;
    struct docker *d AUTO(docker) = docker_new("/nonexistent/docker.sock");
    struct docker_version version;
    struct err e;
    assert_int_equal(docker_negotiate(d, &version, &e), -1);
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(e.msg, "/nonexistent/docker.sock"));
    assert_int_equal(docker_do(d, "GET", "/info", NULL, 0, &e), -1);
    assert_int_equal(e.code, ERR_UNAVAILABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pick),
        cmocka_unit_test(test_pick_refused),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_encode),
        cmocka_unit_test(test_ping_of_an_engine_that_never_answered),
        cmocka_unit_test(test_unreachable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
