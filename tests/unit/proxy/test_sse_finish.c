/*
 * Tests of the finish markers of model streams and of the look at JSON below them. One thread.
 */
#include <stdio.h>

#include "proxy/sse_finish.h"
#include "tests/unit/proxy/test.h"

static void test_kinds(void **state)
{
    (void)state;
    assert_int_equal(sse_kind_of(STR("/chat/completions")), SSE_CHAT);
    assert_int_equal(sse_kind_of(STR("/v1/messages")), SSE_MESSAGES);
    assert_int_equal(sse_kind_of(STR("/responses")), SSE_RESPONSES);
    assert_int_equal(sse_kind_of(STR("/models/x:streamGenerateContent")), SSE_GEMINI);
    assert_int_equal(sse_kind_of(STR("/completions")), SSE_NONE);
    assert_int_equal(sse_kind_of(STR("")), SSE_NONE);
}

static void test_streams(void **state)
{
    static const struct {
        enum sse_kind kind;
        const char *text;
        bool is_whole;
    } cases[] = {
        {SSE_NONE, "", true},
        {SSE_CHAT, "", false},
        {SSE_CHAT, "data: [DONE]\n\n", true},
        {SSE_CHAT, "data:[DONE]\r\n\r\n", true},
        {SSE_CHAT, "data: [DONE] \n", true},
        {SSE_CHAT, "data: [DONE]", false},
        {SSE_CHAT, ": [DONE]\n", false},
        {SSE_CHAT, "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n", true},
        {SSE_CHAT, "data: {\"choices\":[{\"finish_reason\" : \"length\" , \"x\":1}]}\n\n", true},
        {SSE_CHAT, "data: {\"choices\":[{\"finish_reason\":null}]}\n\n", false},
        {SSE_CHAT, "data: {\"choices\":[{\"finish_reason\":\"\"}]}\n\n", false},
        {SSE_CHAT, "data: {\"finish_reason\":\"stop\"}\n\n", false},
        {SSE_CHAT, "data: {\"a\":[{\"b\":\"finish_reason\",\"c\":\"stop\"}]}\n\n", false},
        {SSE_CHAT, "data: {\"a\":[{\"content\":\"\\\"finish_reason\\\":\\\"stop\\\"\"}]}\n\n",
         false},
        {SSE_CHAT, "data: {\"a\":[{\"content\":\"\\\\\",\"finish_reason\":\"stop\"}]}\n\n", true},
        {SSE_CHAT, "data: {\"error\":{\"message\":\"x\"}}\n\n", true},
        {SSE_CHAT, "data: {\"a\":{\"error\":{}}}\n\n", false},
        {SSE_CHAT, "event: data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n", false},
        {SSE_CHAT, "id: 1\nda\ndata: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n", true},
        {SSE_MESSAGES, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", true},
        {SSE_MESSAGES, "event: message_stop\n\n", false},
        {SSE_MESSAGES,
         "data: {\"type\": \"message_delta\",\"delta\":{\"type\":\"message_stop\"}}\n", false},
        {SSE_MESSAGES, "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
         true},
        {SSE_MESSAGES, "data: {\"type\":\"ping\"}\n\n", false},
        {SSE_RESPONSES, "data: {\"type\":\"response.completed\",\"response\":{}}\n\n", true},
        {SSE_RESPONSES, "data: {\"type\":\"response.incomplete\"}\n\n", true},
        {SSE_RESPONSES, "data: {\"type\":\"response.created\"}\n\n", false},
        {SSE_RESPONSES, "data: {\"response\":{\"type\":\"response.completed\"}}\n\n", false},
        {SSE_GEMINI, "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t part = 1; part < 90; part += part < 9 ? 1 : 40) {
            struct sse_finish f = {.kind = cases[i].kind};
            struct str text = str_of(cases[i].text);

            for (size_t at = 0; at < text.len; at += part) {
                sse_finish_feed(&f, str_cut(text, at, at + part));
            }
            if (sse_finish_is_whole(&f) != cases[i].is_whole) {
                fail_msg("in parts of %zu: %s", part, cases[i].text);
            }
        }
    }
}

struct found {
    unsigned count;
    char text[64];
};

static void on_value(void *ctx, unsigned depth, struct str key, struct str value)
{
    struct found *f = ctx;

    if (depth == 1 && str_is(key, "model")) {
        f->count++;
        (void)snprintf(f->text, sizeof f->text, "%.*s", STR_FMT(value));
    }
}

static void test_model_of_a_request(void **state)
{
    static const char text[] =
        "{\"messages\":[{\"model\":\"no\",\"content\":\"{\\\"model\\\":\\\"no\\\"}\"}],\"max\":1,"
        "\"model\":\"claude-x\",\"stream\":true}";
    struct json_scan s = {0};
    struct found found = {0};

    (void)state;
    for (size_t i = 0; i < sizeof text - 1; i++) {
        json_scan_feed(&s, str_n(text + i, 1), on_value, &found);
    }
    assert_int_equal(found.count, 1);
    assert_string_equal(found.text, "claude-x");
}

static void test_long_strings_are_passed_over(void **state)
{
    BUF_AUTO(text, 1 << 20);
    struct json_scan s = {0};
    struct found found = {0};

    (void)state;
    buf_puts(&text, "{\"model\":\"");
    for (unsigned i = 0; i < 5000; i++) {
        buf_putc(&text, 'a');
    }
    buf_puts(&text, "\",\"model\":\"b\"}");
    json_scan_feed(&s, buf_str(&text), on_value, &found);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.text, "b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_model_of_a_request),
        cmocka_unit_test(test_long_strings_are_passed_over),
    };

    return RUN_TESTS(tests);
}
