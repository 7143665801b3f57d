/*
 * Tests of the engine's stream of a build, recorded from Docker 20.10. One thread.
 */
#include "engine/progress.h"
#include "tests/unit/engine/test.h"

static void test_steps(void **state)
{
    (void)state;
    struct progress p;
    progress_init(&p);
    progress_feed(&p, STR("{\"stream\":\"Step 1/4 : FROM debian:trixie-slim\"}\r\n"));
    assert_int_equal(p.percent, 0);
    assert_string_equal(p.step, "1/4 FROM debian:trixie-slim");
    /* In pieces, as they come from a socket. */
    progress_feed(
        &p, STR("{\"stream\":\"\\n\"}\r\n{\"stream\":\" ---\\u003e 0cd26133bdec\\n\"}\r\n{\"str"));
    progress_feed(&p, STR("eam\":\"Step 3/4 : RUN apt-get update\"}"));
    assert_string_equal(p.step, "1/4 FROM debian:trixie-slim");
    progress_feed(&p, STR("\n"));
    assert_int_equal(p.percent, 50);
    assert_string_equal(p.step, "3/4 RUN apt-get update");
    progress_feed(
        &p, STR("{\"aux\":{\"ID\":\"sha256:0cd26133bdec\"}}\nno json\n\n{\"stream\":7}\n[]\n"));
    assert_string_equal(p.error, "");
    assert_int_equal(p.percent, 50);
    progress_done(&p);
}

static void test_failure(void **state)
{
    (void)state;
    struct progress p;
    progress_init(&p);
    progress_feed(&p,
                  STR("{\"stream\":\"lots of words\\n\"}\n"
                      "{\"stream\":\"\\u001b[91mnpm error code E404\\n\\u001b[0m\"}\n"
                      "{\"stream\":\"Removing intermediate container 6827fbabd6b3\\n\"}\n"
                      "{\"errorDetail\":{\"code\":3,\"message\":\"returned a non-zero code: 3\"},"
                      "\"error\":\"returned a non-zero code: 3\"}\n"));
    assert_string_equal(p.error, "returned a non-zero code: 3");
    struct str tail = progress_tail(&p);
    assert_true(str_eq(tail, STR("lots of words\nnpm error code E404")));
    progress_done(&p);
    /* A body of a refused request. */
    progress_init(&p);
    progress_feed(&p, STR("{\"message\":\"no such image\"}\n"));
    assert_string_equal(p.error, "no such image");
    progress_done(&p);
}

static void test_pull(void **state)
{
    (void)state;
    struct progress p;
    progress_init(&p);
    progress_feed(&p,
                  STR("{\"status\":\"Downloading\",\"progressDetail\":{\"current\":1,\"total\":9},"
                      "\"id\":\"a\"}\n"));
    assert_string_equal(p.step, "Downloading");
    progress_done(&p);
}

static void test_hostile(void **state)
{
    (void)state;
    struct progress p;
    char *many AUTOFREE = mem_calloc(2, PROGRESS_LINE_BYTES_MAX);
    memset(many, 'x', 2 * PROGRESS_LINE_BYTES_MAX);
    progress_init(&p);
    progress_feed(&p, str_n(many, 2 * PROGRESS_LINE_BYTES_MAX));
    progress_feed(&p, STR("\n{\"stream\":\"Step 2/2 : X\"}\n"));
    assert_string_equal(p.step, "2/2 X");
    static const char *const lines[] = {"Step 0/2 : X", "Step 3/2 : X", "Step /2 : X",
                                        "Step 1/0 : X", "Step 1/ : X",  "Step : 1/2",
                                        "Step 1/2"};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        BUF_AUTO(line, 256);
        buf_printf(&line, "{\"stream\":\"%s\"}\n", lines[i]);
        progress_feed(&p, buf_str(&line));
        assert_string_equal(p.step, "2/2 X");
    }
    for (size_t i = 0; i < 1000; i++) {
        progress_feed(&p, STR("{\"stream\":\"a line of some output that goes on and on\\n\"}\n"));
    }
    assert_true(progress_tail(&p).len <= PROGRESS_TAIL_BYTES);
    progress_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_pull),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
