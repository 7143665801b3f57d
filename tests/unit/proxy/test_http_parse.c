/*
 * Tests of the strict parser and of what a relay does with a head. One thread.
 */
#include "proxy/http_parse.h"
#include "tests/unit/proxy/test.h"

struct seen {
    struct http_parser parser;
    struct head head;
    struct buf body;
    unsigned ends;
    bool is_bodiless;
};

static bool on_head(void *ctx)
{
    const struct seen *s = ctx;

    return s->is_bodiless;
}

static void on_body(void *ctx, struct str bytes)
{
    struct seen *s = ctx;

    buf_add_str(&s->body, bytes);
}

static void on_end(void *ctx)
{
    struct seen *s = ctx;

    s->ends++;
}

static const struct http_events events = {.head = on_head, .body = on_body, .end = on_end};

static void seen_init(struct seen *s, bool is_request)
{
    *s = (struct seen){0};
    head_init(&s->head);
    buf_init(&s->body, 1 << 20);
    http_parser_init(&s->parser, is_request, &events, s);
    http_parser_next(&s->parser, &s->head);
}

static void seen_done(struct seen *s)
{
    head_done(&s->head);
    buf_done(&s->body);
}

/* Every way to cut the text in two, and byte by byte, gives the same. */
static void feed_in_parts(struct seen *s, struct str text, size_t part)
{
    while (text.len > 0 && s->parser.problem == HTTP_FINE && !s->parser.message_whole) {
        size_t len = part < text.len ? part : text.len;
        size_t taken = http_parser_feed(&s->parser, str_cut(text, 0, len));

        text = str_cut(text, taken, text.len);
    }
}

static void test_request_in_parts(void **state)
{
    const struct str text =
        STR("POST /a?b HTTP/1.1\r\nHost: x\r\nX-Empty:\r\nTransfer-Encoding: chunked\r\n"
            "\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 5\r\n\r\nGET / HTTP/1.1\r\n");

    (void)state;
    for (size_t part = 1; part <= text.len; part++) {
        struct seen s;

        seen_init(&s, true);
        feed_in_parts(&s, text, part);
        assert_int_equal(s.parser.problem, HTTP_FINE);
        assert_true(s.parser.message_whole && s.ends == 1);
        assert_true(str_is(head_method(&s.head), "POST") && str_is(head_target(&s.head), "/a?b"));
        assert_true(str_is(head_get(&s.head, "host"), "x"));
        assert_true(head_get(&s.head, "X-EMPTY").ptr && head_get(&s.head, "x-empty").len == 0);
        assert_null(head_get(&s.head, "x-sum").ptr);
        assert_true(str_is(buf_str(&s.body), "abcde"));
        assert_int_equal(s.head.count - s.head.trailers_from, 1);
        assert_int_equal(s.parser.framing, HTTP_CHUNKED);
        seen_done(&s);
    }
}

static void test_refused(void **state)
{
    static const char *const cases[] = {
        "GET / HTTP/1.1\nHost: x\n\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked;q=1\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n\tfold\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\rC: d\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\x01\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET /\x01 HTTP/1.1\r\n\r\n",
        "get / HTTP/1.1\r\n\r\n",
        "HELO x\r\n",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct seen s;

        seen_init(&s, true);
        (void)http_parser_feed(&s.parser, str_of(cases[i]));
        if (s.parser.problem == HTTP_FINE) {
            fail_msg("taken: %s", cases[i]);
        }
        assert_true(http_problem_text(&s.parser)[0] != '\0');
        seen_done(&s);
    }
}

static void test_refused_chunks(void **state)
{
    static const char *const cases[] = {
        "-1\r\n",     "0x3\r\nabc\r\n", " 3\r\nabc\r\n",        "3 \r\nabc\r\n",
        "3\nabc\r\n", "3\r\nabcd\r\n",  "fffffffffffffffff\r\n"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct seen s;

        seen_init(&s, true);
        (void)http_parser_feed(
            &s.parser, STR("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"));
        (void)http_parser_feed(&s.parser, str_of(cases[i]));
        if (s.parser.problem == HTTP_FINE) {
            fail_msg("taken: %s", cases[i]);
        }
        seen_done(&s);
    }
}

static void test_limits(void **state)
{
    BUF_AUTO(text, 1 << 20);
    struct seen s;

    (void)state;
    buf_puts(&text, "GET / HTTP/1.1\r\n");
    for (unsigned i = 0; i < LIMIT_HEAD_FIELDS; i++) {
        buf_puts(&text, "X: y\r\n");
    }
    seen_init(&s, true);
    (void)http_parser_feed(&s.parser, buf_str(&text));
    assert_int_equal(s.parser.problem, HTTP_FINE);
    (void)http_parser_feed(&s.parser, STR("One-more: y\r\n"));
    assert_int_equal(s.parser.problem, HTTP_TOO_LARGE);
    seen_done(&s);

    seen_init(&s, true);
    for (unsigned i = 0; i < 70000 && s.parser.problem == HTTP_FINE; i++) {
        (void)http_parser_feed(&s.parser, STR("\r\n"));
    }
    assert_int_equal(s.parser.problem, HTTP_TOO_LARGE);
    seen_done(&s);
}

static void test_answers(void **state)
{
    static const struct {
        const char *text;
        bool is_bodiless;
        bool is_whole;
        enum http_framing framing;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false, true, HTTP_LENGTH},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", true, true, HTTP_LENGTH},
        {"HTTP/1.1 204 No Content\r\n\r\n", false, true, HTTP_UNTIL_CLOSE},
        {"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", false, true, HTTP_LENGTH},
        {"HTTP/1.1 100 Continue\r\n\r\n", false, true, HTTP_UNTIL_CLOSE},
        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", true,
         true, HTTP_UNTIL_CLOSE},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false, true,
         HTTP_CHUNKED},
        {"HTTP/1.0 200 OK\r\n\r\nuntil close", false, false, HTTP_UNTIL_CLOSE},
        {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", false, true, HTTP_LENGTH},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t part = 1; part < 60; part += 7) {
            struct seen s;

            seen_init(&s, false);
            s.is_bodiless = cases[i].is_bodiless;
            feed_in_parts(&s, str_of(cases[i].text), part);
            assert_int_equal(s.parser.problem, HTTP_FINE);
            assert_int_equal(s.parser.message_whole, cases[i].is_whole);
            assert_int_equal(s.parser.framing, cases[i].framing);
            assert_int_equal(http_parser_finish(&s.parser), !cases[i].is_whole);
            seen_done(&s);
        }
    }
}

static void test_an_answer_after_interim_ones(void **state)
{
    struct str text = STR("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
                          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n!rest");
    static const unsigned expected[] = {100, 103, 200};
    struct seen s;

    (void)state;
    seen_init(&s, false);
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        text = str_cut(text, http_parser_feed(&s.parser, text), text.len);
        assert_true(s.parser.message_whole);
        assert_int_equal(s.head.status, expected[i]);
        if (i < 2) {
            head_done(&s.head);
            head_init(&s.head);
            http_parser_next(&s.parser, &s.head);
        }
    }
    assert_true(str_is(text, "rest") && str_is(buf_str(&s.body), "!"));
    seen_done(&s);
}

static void test_pipelined_requests_stop_at_each(void **state)
{
    struct str text = STR("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nPOST /2 HTTP/1.1\r\nHost: x\r\n"
                          "Content-Length: 2\r\n\r\nhiGET /3 HTTP/1.1\r\n\r\n");
    struct seen s;

    (void)state;
    seen_init(&s, true);
    for (int n = '1'; n <= '3'; n++) {
        text = str_cut(text, http_parser_feed(&s.parser, text), text.len);
        assert_true(s.parser.message_whole);
        assert_int_equal(head_target(&s.head).ptr[1], n);
        head_done(&s.head);
        head_init(&s.head);
        http_parser_next(&s.parser, &s.head);
    }
    assert_int_equal(text.len, 0);
    seen_done(&s);
}

static void test_an_upgrade_is_a_request_like_any_other(void **state)
{
    struct seen s;

    (void)state;
    seen_init(&s, true);
    (void)http_parser_feed(&s.parser, STR("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
                                          "Upgrade: websocket\r\n\r\n"));
    assert_true(s.parser.message_whole && s.parser.is_upgrade);
    head_done(&s.head);
    head_init(&s.head);
    http_parser_next(&s.parser, &s.head);
    (void)http_parser_feed(&s.parser, STR("GET /next HTTP/1.1\r\n\r\n"));
    assert_true(s.parser.message_whole && str_is(head_target(&s.head), "/next"));
    seen_done(&s);
}

static bool drops_b(struct str name, struct str value, const void *ctx)
{
    (void)value;
    (void)ctx;
    return str_is(name, "b");
}

static void test_what_travels_on(void **state)
{
    BUF_AUTO(out, 4096);
    struct seen s;

    (void)state;
    seen_init(&s, true);
    (void)http_parser_feed(&s.parser,
                           STR("GET / HTTP/1.1\r\nA: 1\r\nb: 2\r\nConnection: close, c-c\r\n"
                               "C-C: 3\r\nTE: x\r\nProxy-Authorization: y\r\nD:  4 \r\n\r\n"));
    assert_true(s.parser.message_whole);
    head_copy(&s.head, &out, drops_b, NULL);
    assert_string_equal(out.ptr, "A: 1\r\nD: 4\r\n");
    assert_false(http_parser_keeps_alive(&s.parser));
    assert_int_equal(head_count_token(&s.head, "connection", "C-C"), 1);
    seen_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_in_parts),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_chunks),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_an_answer_after_interim_ones),
        cmocka_unit_test(test_pipelined_requests_stop_at_each),
        cmocka_unit_test(test_an_upgrade_is_a_request_like_any_other),
        cmocka_unit_test(test_what_travels_on),
    };

    return RUN_TESTS(tests);
}
