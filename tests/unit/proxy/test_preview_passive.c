/*
 * Tests of passive traffic and of the WebSocket frame counter. One thread.
 */
#include "proxy/http_parse.h"
#include "proxy/preview_passive.h"
#include "proxy/ws_frames.h"
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

static enum passive_kind kind_of(const char *target, const char *fields)
{
    static const struct http_events events = {.head = on_head, .body = on_body, .end = on_end};
    struct http_parser p;
    struct head h;
    enum passive_kind kind;

    BUF_AUTO(text, 4096);
    buf_printf(&text, "GET %s HTTP/1.1\r\n%s\r\n", target, fields);
    head_init(&h);
    http_parser_init(&p, true, &events, NULL);
    http_parser_next(&p, &h);
    (void)http_parser_feed(&p, buf_str(&text));
    assert_true(p.message_whole);
    kind = passive_kind_of(&h);
    head_done(&h);
    return kind;
}

static void test_passive(void **state)
{
    (void)state;
    assert_int_equal(kind_of("/favicon.ico", ""), PASSIVE_FAVICON);
    assert_int_equal(kind_of("/favicon.ico?v=2", ""), PASSIVE_FAVICON);
    assert_int_equal(kind_of("/apple-touch-icon-120x120.png", ""), PASSIVE_FAVICON);
    assert_int_equal(kind_of("/", "Sec-WebSocket-Protocol: vite-hmr\r\n"), PASSIVE_HOT_RELOAD);
    assert_int_equal(kind_of("/", "Sec-WebSocket-Protocol: vite-ping\r\n"), PASSIVE_HOT_RELOAD);
    assert_int_equal(kind_of("/", "Accept: text/x-vite-ping\r\n"), PASSIVE_HOT_RELOAD);
    assert_int_equal(kind_of("/_next/webpack-hmr?page=/", ""), PASSIVE_HOT_RELOAD);
    assert_int_equal(kind_of("/shop/_next/webpack-hmr", ""), PASSIVE_HOT_RELOAD);
    assert_int_equal(kind_of("/", "Sec-Purpose: prefetch;prerender\r\n"), PASSIVE_OTHER);
    assert_int_equal(kind_of("/", "Purpose: Prefetch\r\n"), PASSIVE_OTHER);
    assert_int_equal(kind_of("/", "User-Agent: Slackbot-LinkExpanding 1.0\r\n"), PASSIVE_OTHER);
}

static void test_not_passive(void **state)
{
    (void)state;
    assert_int_equal(kind_of("/", ""), PASSIVE_NOT);
    assert_int_equal(kind_of("/favicon", ""), PASSIVE_NOT);
    assert_int_equal(kind_of("/a/favicon.ico", ""), PASSIVE_NOT);
    assert_int_equal(kind_of("/", "Sec-WebSocket-Protocol: chat\r\n"), PASSIVE_NOT);
    assert_int_equal(kind_of("/", "Upgrade: websocket\r\nConnection: Upgrade\r\n"), PASSIVE_NOT);
    assert_int_equal(kind_of("/", "User-Agent: curl/8.14.1\r\n"), PASSIVE_NOT);
    assert_int_equal(kind_of("/", "User-Agent: Mozilla/5.0 (X11) Robotics/1\r\n"), PASSIVE_NOT);
    assert_int_equal(kind_of("/?prefetch=1", ""), PASSIVE_NOT);
}

static void test_frames(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        bool at_boundary;
    } cases[] = {
        {"", 0, true},
        {"\x81", 1, false},
        {"\x81\x00", 2, true},
        {"\x81\x02hi", 4, true},
        {"\x81\x02h", 3, false},
        {"\x81\x82kkkkhi", 8, true},
        {"\x81\x82kkkkh", 7, false},
        {"\x81\x7e\x00\x03"
         "abc",
         7, true},
        {"\x81\x7e\x00", 3, false},
        {"\x81\x7f\x00\x00\x00\x00\x00\x00\x00\x01z", 11, true},
        {"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xffz", 11, false},
        {"\x81\x02hi\x89\x00", 6, true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct ws_frames whole = {0};
        struct ws_frames single = {0};

        ws_frames_feed(&whole, str_n(cases[i].bytes, cases[i].len));
        for (size_t at = 0; at < cases[i].len; at++) {
            ws_frames_feed(&single, str_n(cases[i].bytes + at, 1));
        }
        assert_int_equal(ws_frames_at_boundary(&whole), cases[i].at_boundary);
        assert_int_equal(ws_frames_at_boundary(&single), cases[i].at_boundary);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_passive),
        cmocka_unit_test(test_not_passive),
        cmocka_unit_test(test_frames),
    };

    return RUN_TESTS(tests);
}
