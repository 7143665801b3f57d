/*
 * Tests of errors and of the log's lines. One thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/json_read.h"
#include "lib/log.h"
#include "tests/unit/lib/test.h"

static void test_errors(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(err_set(&e, ERR_IO, ENOENT, "open %s", "x"), -1);
    assert_string_equal(e.msg, "open x: No such file or directory");
    assert_int_equal(e.cause, ENOENT);
    assert_int_equal(err_wrap(&e, "start %d", 7), -1);
    assert_string_equal(e.msg, "start 7: open x: No such file or directory");
    (void)err_tag(&e, "image_building");
    assert_string_equal(e.tag, "image_building");
    (void)err_set(&e, ERR_BUSY, 0, "again");
    assert_string_equal(e.tag, "");
    assert_int_equal(err_set(NULL, ERR_IO, 0, "x"), -1);
    assert_int_equal(err_wrap(NULL, "x"), -1);
    for (int code = ERR_NONE; code <= ERR_INTERNAL; code++) {
        assert_int_equal(err_code_from_name(err_code_name((enum err_code)code)), code);
    }
    assert_int_equal(err_code_from_name("no such"), ERR_INTERNAL);
}

static void test_long_errors(void **state)
{
    (void)state;
    static char text[2000];
    struct err e = {0};
    memset(text, 'm', sizeof(text) - 1);
    (void)err_set(&e, ERR_IO, EPIPE, "%s", text);
    assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
    /* A short context costs the message no more than itself. */
    (void)err_wrap(&e, "ab");
    assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
    (void)err_wrap(&e, "%s", text);
    assert_true(strlen(e.msg) < sizeof(e.msg));
    assert_non_null(strstr(e.msg, ": ab: mm"));
}

/* What log_info writes to stderr, as one parsed line. */
static struct json_doc *logged(const char *msg, const char *key, const char *value)
{
    static char line[40000];
    int ends[2];
    struct json_doc *doc = NULL;
    struct err e;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    int was = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    (void)dup2(ends[1], STDERR_FILENO);
    log_info(msg, "gone", NULL, key, value);
    log_debug("below the threshold");
    (void)dup2(was, STDERR_FILENO);
    (void)close(was);
    (void)close(ends[1]);
    ssize_t len = read(ends[0], line, sizeof(line));
    (void)close(ends[0]);
    assert_true(len > 1);
    assert_int_equal(line[len - 1], '\n');
    assert_ptr_equal(memchr(line, '\n', (size_t)len), line + len - 1);
    if (json_parse(str_n(line, (size_t)len), &doc, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    return doc;
}

static void test_log_lines(void **state)
{
    (void)state;
    log_init("unit", LOG_INFO);
    struct json_doc *doc = logged("it\nis", "why", "a \"quote\" \x1B[31m \xFF");
    const struct json_value *root = json_root(doc);
    test_str(json_get_str(root, "program"), "unit");
    test_str(json_get_str(root, "level"), "info");
    test_str(json_get_str(root, "msg"), "it\nis");
    test_str(json_get_str(root, "why"), "a \"quote\" \x1B[31m \xEF\xBF\xBD");
    assert_null(json_get(root, "gone"));
    json_doc_free(doc);
}

/* A line that is too long is cut, not lost. */
static void test_long_log_line(void **state)
{
    (void)state;
    static char text[30000];
    memset(text, 'l', sizeof(text) - 1);
    struct json_doc *doc = logged("something failed", "lines", text);
    test_str(json_get_str(json_root(doc), "msg"), "something failed");
    assert_non_null(json_get(json_root(doc), "cut"));
    json_doc_free(doc);
    doc = logged(text, "a", "b");
    assert_int_equal(json_get_str(json_root(doc), "msg").len, 1024);
    json_doc_free(doc);
}

static void test_levels(void **state)
{
    (void)state;
    enum log_level level = LOG_INFO;
    assert_true(log_level_parse("error", &level));
    assert_int_equal(level, LOG_ERROR);
    assert_false(log_level_parse("Error", &level));
    assert_false(log_level_parse("", &level));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),    cmocka_unit_test(test_long_errors),
        cmocka_unit_test(test_log_lines), cmocka_unit_test(test_long_log_line),
        cmocka_unit_test(test_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
