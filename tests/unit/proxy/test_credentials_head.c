/*
 * Tests of the header policy towards providers and back. One thread.
 */
#include "proxy/credentials_head.h"
#include "proxy/http_parse.h"
#include "tests/unit/proxy/test.h"

static bool on_head(void *ctx)
{
    (void)ctx;
    return false;
}

static void on_body(void *ctx, struct str bytes)
{
    (void)ctx;
    (void)bytes;
}

static void on_end(void *ctx)
{
    (void)ctx;
}

static void parse(struct head *h, const char *fields)
{
    static const struct http_events events = {.head = on_head, .body = on_body, .end = on_end};
    struct http_parser p;

    BUF_AUTO(text, 4096);
    buf_printf(&text, "GET / HTTP/1.1\r\n%s\r\n", fields);
    head_init(h);
    http_parser_init(&p, true, &events, NULL);
    http_parser_next(&p, h);
    (void)http_parser_feed(&p, buf_str(&text));
    assert_true(p.message_whole);
}

static void test_token(void **state)
{
    static const struct {
        const char *fields, *token;
    } cases[] = {
        {"Authorization: Bearer t1\r\n", "t1"},
        {"authorization: bearer  t1\r\n", "t1"},
        {"X-Api-Key: t2\r\n", "t2"},
        {"x-goog-api-key: t3\r\n", "t3"},
        {"x-goog-api-key: t3\r\nAuthorization: Bearer t1\r\n", "t1"},
        {"Authorization: Basic eDp5\r\nx-api-key: t2\r\n", "t2"},
        {"Authorization: Bearer \r\n", NULL},
        {"Authorization: Bearer\r\n", NULL},
        {"x-api-key:\r\n", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct head h;

        parse(&h, cases[i].fields);
        struct str token = credentials_token(&h);

        if (cases[i].token) {
            assert_true(str_is(token, cases[i].token));
        } else {
            assert_null(token.ptr);
        }
        head_done(&h);
    }
}

static void test_request_fields(void **state)
{
    static const char *const dropped[] = {
        "Authorization", "x-api-key",         "X-Goog-Api-Key", "Cookie", "Host",
        "Expect",        "X-Forwarded-For",   "Connection",     "x-hop",  "Accept-Encoding",
        "Upgrade",       "Transfer-Encoding", "Content-Length",
    };
    static const char *const kept[] = {"anthropic-version", "anthropic-beta", "x-stainless-os",
                                       "content-type",      "accept",         "user-agent",
                                       "x-forward"};
    struct head h;

    (void)state;
    parse(&h, "Connection: x-hop\r\nX-Hop: 1\r\n");
    for (size_t i = 0; i < ARRAY_LEN(dropped); i++) {
        assert_true(credentials_drops_request_field(&h, str_of(dropped[i])));
    }
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        assert_false(credentials_drops_request_field(&h, str_of(kept[i])));
    }
    head_done(&h);
}

static void test_answer_fields(void **state)
{
    static const struct {
        const char *name, *value, *line;
    } cases[] = {
        {"content-type", "text/plain", "content-type: text/plain\r\n"},
        {"request-id", "r1", "request-id: r1\r\n"},
        {"Set-Cookie", "a=1", ""},
        {"Location", "https://elsewhere/", ""},
        {"Content-Length", "3", ""},
        {"Transfer-Encoding", "chunked", ""},
        {"Alt-Svc", "h3=\":443\"", ""},
        {"retry-after", "7", "retry-after: 7\r\n"},
        {"Retry-After", "61", "Retry-After: 60\r\n"},
        {"retry-after", "Wed, 21 Oct 2027 07:28:00 GMT", "retry-after: 60\r\n"},
        {"retry-after", "-1", "retry-after: 60\r\n"},
        {"retry-after-ms", "1500", "retry-after-ms: 1500\r\n"},
        {"retry-after-ms", "999999", "retry-after-ms: 60000\r\n"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        BUF_AUTO(out, 4096);
        credentials_answer_field(&out, str_of(cases[i].name), str_of(cases[i].value));
        assert_string_equal(out.ptr, cases[i].line);
    }
}

static void test_extra_fields(void **state)
{
    static const struct {
        const char *fields, *line;
    } cases[] = {
        {"", "anthropic-beta: oauth-1"},
        {"Anthropic-Beta: a, b\r\nx: 1\r\n", "anthropic-beta: a,b,oauth-1"},
        {"Anthropic-Beta: a\r\nanthropic-beta: oauth-1,c\r\n", "anthropic-beta: a,oauth-1,c"},
        {"anthropic-beta: oauth-1\r\n", "anthropic-beta: oauth-1"},
        {"anthropic-beta: ,\r\n", "anthropic-beta: oauth-1"},
    };

    static const char *const lines[] = {"anthropic-beta: oauth-1"};

    (void)state;
    assert_true(credentials_is_extra(lines, 1, STR("Anthropic-Beta")));
    assert_false(credentials_is_extra(lines, 1, STR("anthropic")));
    assert_false(credentials_is_extra(lines, 0, STR("anthropic-beta")));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        BUF_AUTO(out, 4096);
        struct head h;

        parse(&h, cases[i].fields);
        credentials_extra_field(&out, &h, str_of(lines[0]));
        assert_string_equal(out.ptr, cases[i].line);
        head_done(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_request_fields),
        cmocka_unit_test(test_answer_fields),
        cmocka_unit_test(test_extra_fields),
    };

    return RUN_TESTS(tests);
}
