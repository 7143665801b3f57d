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

struct stream_case {
    const char *text;
    enum sse_kind kind;
    bool is_whole;
};

static const struct stream_case cases[] = {
    {"", SSE_NONE, true},
    {"", SSE_CHAT, false},
    {"data: [DONE]\n\n", SSE_CHAT, true},
    {"data:[DONE]\r\n\r\n", SSE_CHAT, true},
    {"data: [DONE] \n", SSE_CHAT, true},
    {"data: [DONE]", SSE_CHAT, false},
    {": [DONE]\n", SSE_CHAT, false},
    {"data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n", SSE_CHAT, true},
    {"data: {\"choices\":[{\"finish_reason\" : \"length\" , \"x\":1}]}\n\n", SSE_CHAT, true},
    {"data: {\"choices\":[{\"finish_reason\":null}]}\n\n", SSE_CHAT, false},
    {"data: {\"choices\":[{\"finish_reason\":\"\"}]}\n\n", SSE_CHAT, false},
    {"data: {\"finish_reason\":\"stop\"}\n\n", SSE_CHAT, false},
    {"data: {\"a\":[{\"b\":\"finish_reason\",\"c\":\"stop\"}]}\n\n", SSE_CHAT, false},
    {"data: {\"a\":[{\"content\":\"\\\"finish_reason\\\":\\\"stop\\\"\"}]}\n\n", SSE_CHAT, false},
    {"data: {\"a\":[{\"content\":\"\\\\\",\"finish_reason\":\"stop\"}]}\n\n", SSE_CHAT, true},
    {"data: {\"error\":{\"message\":\"x\"}}\n\n", SSE_CHAT, true},
    {"data: {\"a\":{\"error\":{}}}\n\n", SSE_CHAT, false},
    {"event: data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n", SSE_CHAT, false},
    {"id: 1\nda\ndata: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n", SSE_CHAT, true},
    {"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", SSE_MESSAGES, true},
    {"event: message_stop\n\n", SSE_MESSAGES, false},
    {"data: {\"type\": \"message_delta\",\"delta\":{\"type\":\"message_stop\"}}\n", SSE_MESSAGES,
     false},
    {"data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", SSE_MESSAGES,
     true},
    {"data: {\"type\":\"ping\"}\n\n", SSE_MESSAGES, false},
    {"data: {\"type\":\"response.completed\",\"response\":{}}\n\n", SSE_RESPONSES, true},
    {"data: {\"type\":\"response.incomplete\"}\n\n", SSE_RESPONSES, true},
    {"data: {\"type\":\"response.created\"}\n\n", SSE_RESPONSES, false},
    {"data: {\"response\":{\"type\":\"response.completed\"}}\n\n", SSE_RESPONSES, false},
    {"data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n", SSE_GEMINI, true},
};

static bool is_whole_in_parts(const struct stream_case *c, size_t part)
{
    struct sse_finish f = {.kind = c->kind};
    struct str text = str_of(c->text);

    for (size_t at = 0; at < text.len; at += part) {
        sse_finish_feed(&f, str_cut(text, at, at + part));
    }
    return sse_finish_is_whole(&f);
}

static void test_streams(void **state)
{
    static const size_t parts[] = {1, 2, 3, 5, 8, 13, 50, 1000};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t k = 0; k < ARRAY_LEN(parts); k++) {
            assert_int_equal(is_whole_in_parts(&cases[i], parts[k]), cases[i].is_whole);
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
