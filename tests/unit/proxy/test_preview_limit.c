/*
 * Tests of the limits of wakes. One thread.
 */
#include <stdio.h>

#include "proxy/http_parse.h"
#include "proxy/preview_limit.h"
#include "tests/unit/proxy/test.h"

#define SECOND_MS 1000

static int64_t retry_s;

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

/* One start for a request with these fields. */
static bool take_with(const char *fields, int64_t now_ms)
{
    static const struct http_events events = {.head = on_head, .body = on_body, .end = on_end};
    struct http_parser p;
    struct head h;
    bool taken;

    BUF_AUTO(text, 4096);
    buf_printf(&text, "GET / HTTP/1.1\r\n%s\r\n", fields);
    head_init(&h);
    http_parser_init(&p, true, &events, NULL);
    http_parser_next(&p, &h);
    (void)http_parser_feed(&p, buf_str(&text));
    assert_true(p.message_whole);
    retry_s = 0;
    taken = limit_take(&h, now_ms, &retry_s);
    head_done(&h);
    return taken;
}

static bool take(const char *address, int64_t now_ms)
{
    char fields[256];

    (void)snprintf(fields, sizeof fields, "X-Forwarded-For: %s\r\n", address);
    return take_with(fields, now_ms);
}

static void test_a_bucket_fills_evenly(void **state)
{
    int64_t now_ms = 1000000;

    (void)state;
    limit_set(10, 0);
    for (int i = 0; i < 10; i++) {
        assert_true(take("192.0.2.1", now_ms));
    }
    assert_false(take("192.0.2.1", now_ms));
    assert_in_range(retry_s, 6, 8);
    assert_false(take("192.0.2.1", now_ms + 5 * SECOND_MS));
    assert_true(take("192.0.2.1", now_ms + 6 * SECOND_MS));
    assert_false(take("192.0.2.1", now_ms + 6 * SECOND_MS));
    /* What was promised holds. */
    assert_true(take("192.0.2.1", now_ms + 6 * SECOND_MS + retry_s * SECOND_MS));
    now_ms += 3600 * SECOND_MS;
    for (int i = 0; i < 10; i++) {
        assert_true(take("192.0.2.1", now_ms));
    }
    assert_false(take("192.0.2.1", now_ms));
}

static void test_zero_is_off(void **state)
{
    (void)state;
    limit_set(0, 0);
    for (int i = 0; i < 1000; i++) {
        assert_true(take("192.0.2.2", 5000000));
    }
}

/* A refusal by one limit costs nothing of the other. */
static void test_both_limits(void **state)
{
    int64_t now_ms = 10000000;

    (void)state;
    limit_set(2, 3);
    assert_true(take("192.0.2.3", now_ms));
    assert_true(take("192.0.2.3", now_ms));
    assert_false(take("192.0.2.3", now_ms));
    assert_true(take("192.0.2.4", now_ms));
    assert_false(take("192.0.2.5", now_ms));
    assert_in_range(retry_s, 20, 22);
    assert_true(take("192.0.2.5", now_ms + 20 * SECOND_MS));
    assert_false(take("192.0.2.5", now_ms + 20 * SECOND_MS));
    assert_true(take("192.0.2.5", now_ms + 40 * SECOND_MS));
}

static void test_who_is_a_client(void **state)
{
    int64_t now_ms = 20000000;

    (void)state;
    limit_set(1, 0);
    /* This machine: never counted. */
    for (int i = 0; i < 3; i++) {
        assert_true(take_with("", now_ms));
        assert_true(take("127.0.0.1", now_ms));
        assert_true(take("127.8.9.1", now_ms));
        assert_true(take("::1", now_ms));
        assert_true(take("::ffff:127.0.0.1", now_ms));
        assert_true(take("203.0.113.1, 127.0.0.1", now_ms));
    }
    /* The last element of the last field is the edge's. */
    assert_true(take("10.0.0.1, 192.0.2.9", now_ms));
    assert_false(take("10.0.0.2,192.0.2.9", now_ms));
    assert_false(take("127.0.0.1 ,\t192.0.2.9", now_ms));
    assert_false(take_with("X-Forwarded-For: 10.0.0.3\r\nx-forwarded-for: 192.0.2.9\r\n", now_ms));
    assert_true(take("192.0.2.9, 10.0.0.4", now_ms));
    /* A mapped address is its IPv4 address; a network of IPv6 is one client. */
    assert_false(take("::ffff:192.0.2.9", now_ms));
    assert_true(take("2001:db8::1", now_ms));
    assert_false(take("2001:db8::2", now_ms));
    assert_true(take("2001:db8:0:1::1", now_ms));
    /* What is no address is one client. */
    assert_true(take("unknown", now_ms));
    assert_false(take("_hidden", now_ms));
    assert_false(take("192.0.2.9:1234567890123456789012345678901234567890", now_ms));
}

/* Any number of addresses is remembered in a table of one size. */
static void test_many_addresses(void **state)
{
    char address[32];

    (void)state;
    limit_set(1, 0);
    for (unsigned i = 0; i < 100000; i++) {
        (void)snprintf(address, sizeof address, "10.%u.%u.%u", i / 65536, i / 256 % 256, i % 256);
        assert_true(take(address, 30000000 + (int64_t)i));
        assert_false(take(address, 30000000 + (int64_t)i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_bucket_fills_evenly), cmocka_unit_test(test_zero_is_off),
        cmocka_unit_test(test_both_limits),           cmocka_unit_test(test_who_is_a_client),
        cmocka_unit_test(test_many_addresses),
    };

    return RUN_TESTS(tests);
}
