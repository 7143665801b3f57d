/*
 * Tests of what answers and requests of models say: end, spend, limits, and the look at JSON "
"below.
 * One thread.
 */
#include <stdio.h>

#include "proxy/model_answer.h"
#include "proxy/model_request.h"
#include "tests/unit/proxy/test.h"

static void test_formats(void **state)
{
    (void)state;
    assert_int_equal(model_format_of(STR("/chat/completions")), MODEL_CHAT);
    assert_int_equal(model_format_of(STR("/v1/messages")), MODEL_MESSAGES);
    assert_int_equal(model_format_of(STR("/responses")), MODEL_RESPONSES);
    assert_int_equal(model_format_of(STR("/models/x:streamGenerateContent")), MODEL_GEMINI);
    assert_int_equal(model_format_of(STR("/completions")), MODEL_NONE);
    assert_int_equal(model_format_of(STR("")), MODEL_NONE);
}

struct stream_case {
    const char *text;
    enum model_format format;
    bool is_whole;
};

static const struct stream_case cases[] = {
    {"", MODEL_NONE, true},
    {"", MODEL_CHAT, false},
    {"data: [DONE]\n\n", MODEL_CHAT, true},
    {"data:[DONE]\r\n\r\n", MODEL_CHAT, true},
    {"data: [DONE] \n", MODEL_CHAT, true},
    {"data: [DONE]", MODEL_CHAT, false},
    {": [DONE]\n", MODEL_CHAT, false},
    {"data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n", MODEL_CHAT, true},
    {"data: {\"choices\":[{\"finish_reason\" : \"length\" , \"x\":1}]}\n\n", MODEL_CHAT, true},
    {"data: {\"choices\":[{\"finish_reason\":null}]}\n\n", MODEL_CHAT, false},
    {"data: {\"choices\":[{\"finish_reason\":\"\"}]}\n\n", MODEL_CHAT, false},
    {"data: {\"finish_reason\":\"stop\"}\n\n", MODEL_CHAT, false},
    {"data: {\"a\":[{\"b\":\"finish_reason\",\"c\":\"stop\"}]}\n\n", MODEL_CHAT, false},
    {"data: {\"a\":[{\"content\":\"\\\"finish_reason\\\":\\\"stop\\\"\"}]}\n\n"
     "",
     MODEL_CHAT, false},
    {"data: {\"choices\":[{\"content\":\"\\\\\",\"finish_reason\":\"stop\"}]}\n\n", MODEL_CHAT,
     true},
    {"data: {\"error\":{\"message\":\"x\"}}\n\n", MODEL_CHAT, true},
    {"data: {\"a\":{\"error\":{}}}\n\n", MODEL_CHAT, false},
    {"event: data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n", MODEL_CHAT, false},
    {"id: 1\nda\ndata: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n", MODEL_CHAT, true},
    {"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", MODEL_MESSAGES, true},
    {"event: message_stop\n\n", MODEL_MESSAGES, false},
    {"data: {\"type\": \"message_delta\",\"delta\":{\"type\":\"message_stop\"}}\n"
     "",
     MODEL_MESSAGES, false},
    {"data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", MODEL_MESSAGES,
     true},
    {"data: {\"type\":\"ping\"}\n\n", MODEL_MESSAGES, false},
    {"data: {\"type\":\"response.completed\",\"response\":{}}\n\n", MODEL_RESPONSES, true},
    {"data: {\"type\":\"response.incomplete\"}\n\n", MODEL_RESPONSES, true},
    {"data: {\"type\":\"response.created\"}\n\n", MODEL_RESPONSES, false},
    {"data: {\"response\":{\"type\":\"response.completed\"}}\n\n", MODEL_RESPONSES, false},
    {"data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n", MODEL_GEMINI, true},
};

static bool is_whole_in_parts(const struct stream_case *c, size_t part)
{
    struct model_answer a = {.format = c->format, .is_sse = true};
    struct str text = str_of(c->text);

    for (size_t at = 0; at < text.len; at += part) {
        model_answer_feed(&a, str_cut(text, at, at + part));
    }
    return model_answer_is_whole(&a);
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

/* ---- spend ---- */

#define UNKNOWN UINT64_MAX

struct spend_case {
    const char *text;
    enum model_format format;
    bool is_sse;
    uint64_t input, output, cached_read, cached_write, cost;
};

static const struct spend_case spends[] = {
    {"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"u"
     "sage\":{"
     "\"input_tokens\":25,\"cache_creation_input_tokens\":7,\"cache_read_input_tokens\":1000,"
     "\"cache_creation\":{\"ephemeral_5m_input_tokens\":7},\"output_tokens\":1}}}\n\n"
     "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{"
     "\"output_tokens\""
     ":310}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
     MODEL_MESSAGES, true, 25, 310, 1000, 7, UNKNOWN},
    {"{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"\\\"usage\\\":{\\\"inpu"
     "t_tokens\\\":9}\"}],"
     "\"usage\":{\"input_tokens\":12,\"output_tokens\":6}}",
     MODEL_MESSAGES, false, 12, 6, 0, 0, UNKNOWN},
    {"data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":null}],\"usage\":nu"
     "ll}\n\n"
     "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
     "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1500,\"completion_tokens\":35,\"total"
     "_tokens\":1535,"
     "\"prompt_tokens_details\":{\"cached_tokens\":1000},\"completion_tokens_details\":{\"reas"
     "oning_tokens\":7}"
     ",\"cost\":0.00215}}\n\ndata: [DONE]\n\n",
     MODEL_CHAT, true, 500, 35, 1000, 0, 2150},
    {"{\"choices\":[{\"message\":{\"content\":\"x\"}}],\"usage\":{\"prompt_tokens\":100,\"comp"
     "letion_tokens\":3,"
     "\"prompt_cache_hit_tokens\":64,\"prompt_cache_miss_tokens\":36,\"cost\" : 1.5e-05 }}",
     MODEL_CHAT, false, 36, 3, 64, 0, 15},
    {"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\",\"usage\":{\"prompt_tokens"
     "\":4,"
     "\"completion_tokens\":2}}]}\n\n",
     MODEL_CHAT, true, 4, 2, 0, 0, UNKNOWN},
    {"data: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n"
     "data: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"content\":[{\"text"
     "\":\"x\"}]}],"
     "\"usage\":{\"input_tokens\":1500,\"input_tokens_details\":{\"cached_tokens\":1000},\"out"
     "put_tokens\":42,"
     "\"output_tokens_details\":{\"reasoning_tokens\":7},\"total_tokens\":1542}}}\n\n",
     MODEL_RESPONSES, true, 500, 42, 1000, 0, UNKNOWN},
    {"{\"object\":\"response\",\"usage\":{\"input_tokens\":5,\"output_tokens\":6}}",
     MODEL_RESPONSES, false, 5, 6, 0, 0, UNKNOWN},
    {"data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCoun"
     "t\":50,"
     "\"cachedContentTokenCount\":20,\"candidatesTokenCount\":8,\"thoughtsTokenCount\":30}}\n\n",
     MODEL_GEMINI, true, 30, 38, 20, 0, UNKNOWN},
    {"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", MODEL_CHAT, true, UNKNOWN,
     UNKNOWN, 0, 0, UNKNOWN},
    {"{\"usage\":{\"prompt_tokens\":-3,\"completion_tokens\":\"7\"}}", MODEL_CHAT, false, UNKNOWN,
     UNKNOWN, 0, 0, UNKNOWN},
};

static void check_spend(const struct spend_case *c, size_t part)
{
    struct model_answer a = {.format = c->format, .is_sse = c->is_sse, .cost = "usage.cost"};
    struct str text = str_of(c->text);
    struct model_spend s;

    for (size_t at = 0; at < text.len; at += part) {
        model_answer_feed(&a, str_cut(text, at, at + part));
    }
    s = model_answer_spend(&a);
    assert_int_equal(s.has_input ? s.input : UNKNOWN, c->input);
    assert_int_equal(s.has_output ? s.output : UNKNOWN, c->output);
    assert_int_equal(s.cached_read, c->cached_read);
    assert_int_equal(s.cached_write, c->cached_write);
    assert_int_equal(s.has_cost ? s.cost_microusd : UNKNOWN, c->cost);
}

static void test_spend(void **state)
{
    static const size_t parts[] = {1, 2, 3, 7, 64, 4096};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(spends); i++) {
        for (size_t k = 0; k < ARRAY_LEN(parts); k++) {
            check_spend(&spends[i], parts[k]);
        }
    }
}

static void test_money(void **state)
{
    static const struct {
        const char *text;
        uint64_t micro;
    } good[] = {
        {"0", 0},
        {"0.0", 0},
        {"1", 1000000},
        {"0.000001", 1},
        {"0.0000005", 1},
        {"0.0000004", 0},
        {"12.5", 12500000},
        {"1e-05", 10},
        {"1.5E-3", 1500},
        {"2e+1", 20000000},
        {"0.1234567891234567891", 123457},
        {".5", 500000},
        {"5.", 5000000},
    };

    static const char *const bad[] = {"",   ".",     "-1",  "1.2.3",         "1e", "1e-", "x",
                                      "1 ", "1e999", "NaN", "99999999999999"};
    uint64_t micro;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(model_micro_parse(str_of(good[i].text), &micro));
        assert_int_equal(micro, good[i].micro);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(model_micro_parse(str_of(bad[i]), &micro));
    }
}

static void test_what_was_written_is_counted(void **state)
{
    struct model_answer a = {.format = MODEL_CHAT, .is_sse = true};

    (void)state;
    model_answer_feed(
        &a, STR("data: {\"id\":\"12345678\",\"choices\":[{\"delta\":{\"content\":\"four\",\"x\":"
                "\"no\"}}]}\n\n"
                "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":\"{"
                "\\\"a\"}}]}}]}\n"));
    assert_int_equal(a.text_bytes, 7);
}

/* ---- requests ---- */

struct request_case {
    const char *text;
    const char *model;
    uint64_t max_tokens;
    bool has_problem;
};

static const struct request_case requests[] = {
    {"{\"messages\":[{\"model\":\"no\",\"max_tokens\":9,\"content\":\"{\\\"model\\\":\\\"no"
     "\\\"}\"}],\"model\":"
     "\"claude-x\",\"max_tokens\":32000,\"stream\":true}",
     "claude-x", 32000, false},
    {"{\"model\" : \"a/b:free\" , \"max_completion_tokens\" : 5 , \"max_tokens\" : 7 }",
     "a/b:"
     "free",
     7, false},
    {"{\"model\":\"m\",\"max_output_tokens\":null}", "m", 0, false},
    {"{\"model\":\"m\",\"n\":4,\"max_tokens\":10}", "m", 40, false},
    {"{\"model\":\"m\",\"n\":2}", "m", 64000, false},
    {"{\"model\":\"m\",\"model\":\"m\"}", "m", 0, false},
    {"{\"model\":\"cheap\",\"model\":\"dear\"}", "cheap", 0, true},
    {"{\"model\":\"cheap\"}{\"model\":\"dear\"}", "cheap", 0, true},
    {"{\"model\":\"cheap\",\"mod\\u0065l\":\"dear\"}", "cheap", 0, true},
    {"{\"model\":\"d\\u0065ar\"}", "", 0, true},
    {"{\"model\":[\"dear\"]}", "", 0, true},
    {"{\"model\":\"m\",\"max_tokens\":\"99\"}", "m", 0, true},
    {"{\"model\":\"m\",\"max_tokens\":1e6}", "m", 0, true},
    {"{\"model\":\"m\",\"max\\u005ftokens\":99}", "m", 0, true},
    {"{\"model\":\"m\",\"tools\":[{\"na\\u006de\":1}]}", "m", 0, false},
    {"[{\"model\":\"m\"}]", "", 0, false},
    {"not json at all", "", 0, false},
    {"{\"generationConfig\":{\"maxOutputTokens\":12}}", "", 12, false},
    {"{\"generation_config\":{\"max_output_tokens\":12,\"candidate_count\":3}}", "", 36, false},
};

static void test_requests(void **state)
{
    static const size_t parts[] = {1, 2, 5, 4096};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        for (size_t k = 0; k < ARRAY_LEN(parts); k++) {
            struct str text = str_of(requests[i].text);
            struct model_request r;

            model_request_begin(&r, MODEL_CHAT, STR("/chat/completions"));
            for (size_t at = 0; at < text.len; at += parts[k]) {
                model_request_feed(&r, str_cut(text, at, at + parts[k]));
            }
            assert_string_equal(r.model, requests[i].model);
            assert_int_equal(model_request_max_tokens(&r), requests[i].max_tokens);
            assert_int_equal(r.problem != NULL, requests[i].has_problem);
        }
    }
}

static void test_gemini_names_its_model_in_the_path(void **state)
{
    struct model_request r;

    (void)state;
    model_request_begin(&r, MODEL_GEMINI, STR("/models/gemini-3:streamGenerateContent"));
    assert_string_equal(r.model, "gemini-3");
    assert_true(r.is_stream);
    model_request_feed(&r, STR("{\"model\":\"other\"}"));
    assert_non_null(r.problem);
}

/* ---- the look at JSON ---- */

static void on_seen(void *ctx, const struct json_scan_value *v)
{
    struct buf *out = ctx;

    buf_printf(out, "%.*s=%d%.*s ", STR_FMT(v->path), (int)v->kind, STR_FMT(v->text));
}

static void test_paths(void **state)
{
    static const struct {
        const char *text, *seen;
    } texts[] = {
        {"{\"a\":{\"b\":[1,{\"c\":\"x\"},[true]],\"d\":null}}",
         "a=3 a.b=4 a.b.[]=21 a.b.[]=3 a.b.[].c=0x a.b.[]=4 a.b.[].[]=2true a.d=2null "},
        {"{ \"a\" : 1 , \"b\" : \"\" }", "a=21 b=0 "},
        {"{\"a\":\"\\\"\"}", "a=1 "},
        {"{\"0123456789012345678901234567890123456789\":1,\"b\":2}", "~=21 b=22 "},
        {"[\"x\",\"y\"]", "[]=0x []=0y "},
        {"]}}{\"a\":1}", "a=21 "},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        BUF_AUTO(out, 4096);
        struct json_scan s = {0};

        json_scan_feed(&s, str_of(texts[i].text), on_seen, &out);
        assert_string_equal(buf_ok(&out) ? out.ptr : "", texts[i].seen);
    }
}

static void test_deep_and_long_is_passed_over_and_left_again(void **state)
{
    BUF_AUTO(text, 1 << 20);
    BUF_AUTO(out, 1 << 20);
    struct json_scan s = {0};

    (void)state;
    buf_puts(&text, "{\"deep\":");
    for (unsigned i = 0; i < 5000; i++) {
        buf_puts(&text, "{\"k\":[");
    }
    for (unsigned i = 0; i < 5000; i++) {
        buf_puts(&text, "]}");
    }
    buf_puts(&text, ",\"long\":\"");
    for (unsigned i = 0; i < 5000; i++) {
        buf_putc(&text, 'a');
    }
    buf_puts(&text,
             "\",\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\":{\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\":{"
             "\"cccccccccccccccccccccccccccccccc\":{\"d\":1},\"e\":2}},\"last\":3}");
    json_scan_feed(&s, buf_str(&text), on_seen, &out);
    assert_true(str_contains(buf_str(&out), STR(" long=1 ")));
    assert_true(str_contains(buf_str(&out), STR("bbbb.e=22 ")));
    assert_true(str_ends(buf_str(&out), STR(" last=23 ")));
    assert_false(str_contains(buf_str(&out), STR("d=21")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_spend),
        cmocka_unit_test(test_money),
        cmocka_unit_test(test_what_was_written_is_counted),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_gemini_names_its_model_in_the_path),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_deep_and_long_is_passed_over_and_left_again),
    };

    return RUN_TESTS(tests);
}
