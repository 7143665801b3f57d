/*
 * Tests of the one error shape and its table, and of answers as bytes. One thread.
 */
#include "control/http/http.h"
#include "lib/json_read.h"
#include "tests/unit/control/test.h"

static struct http_response answer;

static int setup(void **state)
{
    (void)state;
    http_response_init(&answer);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_response_done(&answer);
    return 0;
}

/* The answer is an error of that status and code, on one line, without a key "id". */
static void is_error(int status, const char *code, bool retryable)
{
    struct json_doc *doc = NULL;
    struct err e = {0};
    bool says_retryable = !retryable;
    assert_int_equal(answer.status, status);
    OK(json_parse(buf_str(&answer.body), &doc, &e));
    const struct json_value *error = json_get(json_root(doc), "error");
    assert_int_equal(json_count(json_root(doc)), 1);
    assert_int_equal(json_count(error), 3);
    test_str(json_get_str(error, "code"), code);
    assert_true(json_get_str(error, "message").len > 0);
    assert_true(json_get_bool(error, "retryable", &says_retryable));
    assert_int_equal(says_retryable, retryable);
    assert_false(str_contains(buf_str(&answer.body), STR("\n")));
    assert_false(str_contains(buf_str(&answer.body), STR("\"id\"")));
    json_doc_free(doc);
}

static void test_codes(void **state)
{
    (void)state;
    http_error(&answer, "not_found", "there is no app %s", "x\"y\n");
    is_error(404, "not_found", false);
    http_error(&answer, "task_in_progress", "busy");
    is_error(409, "task_in_progress", true);
    http_error(&answer, "image_building", "%d %%", 40);
    is_error(503, "image_building", true);
    assert_int_equal(http_status_of("no such code"), 500);
}

static void test_from_errors(void **state)
{
    (void)state;
    struct err e = {0};
    (void)err_set(&e, ERR_INVALID, 0, "bad");
    http_error_from(&answer, &e);
    is_error(400, "invalid_request", false);
    (void)err_set(&e, ERR_IO, 5, "open %s", "x");
    http_error_from(&answer, &e);
    is_error(500, "internal", false);
    (void)err_set(&e, ERR_UNAVAILABLE, 0, "no");
    (void)err_tag(&e, "no_memory");
    http_error_from(&answer, &e);
    is_error(503, "no_memory", true);
    assert_true(str_contains(buf_str(&answer.headers), STR("Retry-After: 5\r\n")));
    /* A word that is no code of the API leaves the decision to the error's own code. */
    (void)err_set(&e, ERR_UNAVAILABLE, 0, "it ended");
    (void)err_tag(&e, "out_of_memory");
    http_error_from(&answer, &e);
    is_error(503, "unavailable", true);
}

static void test_bytes(void **state)
{
    (void)state;
    BUF_AUTO(out, 65536);
    buf_puts(&answer.body, "{}");
    answer.content_type = "application/json";
    http_add_header(&answer, "Location", "/v1/x");
    http_render(&answer, "request-1", &out);
    assert_true(str_starts(buf_str(&out), STR("HTTP/1.1 200 OK\r\n")));
    assert_true(str_contains(buf_str(&out), STR("Content-Length: 2\r\n")));
    assert_true(str_contains(buf_str(&out), STR("X-Request-Id: request-1\r\n")));
    assert_true(str_contains(buf_str(&out), STR("Cache-Control: no-store\r\n")));
    assert_true(str_ends(buf_str(&out), STR("Location: /v1/x\r\n\r\n{}")));
    /* One without a body says so by its status alone. */
    buf_reset(&out);
    answer.status = 204;
    http_render(&answer, "request-1", &out);
    assert_false(str_contains(buf_str(&out), STR("\r\nContent-")));
    assert_true(str_ends(buf_str(&out), STR("\r\n\r\n")));
}

int main(void)
{
#define WITH_ANSWER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_ANSWER(test_codes),
        WITH_ANSWER(test_from_errors),
        WITH_ANSWER(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
