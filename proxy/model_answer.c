/*
 * Answers of OpenAI's chat completions and responses, of Anthropic's messages, of Gemini and of
 * those who speak like them.
 *
 * Must never look for a marker or a figure in anything but the structure of a data line: the text
 * of a model may contain all of them. Pure functions.
 */
#include "proxy/model_answer.h"

#include <stddef.h>

#include "lib/mem.h"

#define TOKENS_MAX      1000000000000ULL
#define COST_DIGITS_MAX 15

enum count {
    COUNT_INPUT,
    COUNT_OUTPUT,
    COUNT_THOUGHT,
    COUNT_READ,
    COUNT_WRITTEN
};

enum model_format model_format_named(struct str name)
{
    static const struct {
        const char *name;
        enum model_format format;
    } names[] = {
        {"openai-chat", MODEL_CHAT},
        {"anthropic-messages", MODEL_MESSAGES},
        {"openai-responses", MODEL_RESPONSES},
        {"google-gemini", MODEL_GEMINI},
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_is(name, names[i].name)) {
            return names[i].format;
        }
    }
    return MODEL_NONE;
}

enum model_format model_format_of(struct str path)
{
    if (str_ends(path, STR("/chat/completions"))) {
        return MODEL_CHAT;
    }
    if (str_ends(path, STR("/messages"))) {
        return MODEL_MESSAGES;
    }
    if (str_ends(path, STR("/responses"))) {
        return MODEL_RESPONSES;
    }
    return str_ends(path, STR(":streamGenerateContent")) ? MODEL_GEMINI : MODEL_NONE;
}

/* ---- the end ---- */

static bool is_terminal_type(enum model_format format, struct str type)
{
    static const char *const responses[] = {"response.completed", "response.failed",
                                            "response.incomplete", "error"};

    if (format == MODEL_MESSAGES) {
        return str_is(type, "message_stop") || str_is(type, "error");
    }
    for (size_t i = 0; format == MODEL_RESPONSES && i < ARRAY_LEN(responses); i++) {
        if (str_is(type, responses[i])) {
            return true;
        }
    }
    return false;
}

static bool is_end(const struct model_answer *a, const struct json_scan_value *v)
{
    if (v->kind == JSON_SCAN_OBJECT) {
        return str_is(v->path, "error");
    }
    if (v->kind != JSON_SCAN_STRING || v->text.len == 0) {
        return false;
    }
    return (str_is(v->path, "type") && is_terminal_type(a->format, v->text)) ||
           (a->format == MODEL_CHAT && str_is(v->path, "choices.[].finish_reason")) ||
           (a->format == MODEL_GEMINI && str_is(v->path, "candidates.[].finishReason"));
}

/* ---- the spend ---- */

static const struct count_name {
    enum model_format format;
    enum count count;
    const char *name;
} count_names[] = {
    {MODEL_MESSAGES, COUNT_INPUT, "input_tokens"},
    {MODEL_MESSAGES, COUNT_OUTPUT, "output_tokens"},
    {MODEL_MESSAGES, COUNT_READ, "cache_read_input_tokens"},
    {MODEL_MESSAGES, COUNT_WRITTEN, "cache_creation_input_tokens"},
    {MODEL_CHAT, COUNT_INPUT, "prompt_tokens"},
    {MODEL_CHAT, COUNT_OUTPUT, "completion_tokens"},
    {MODEL_CHAT, COUNT_READ, "prompt_tokens_details.cached_tokens"},
    {MODEL_CHAT, COUNT_READ, "prompt_cache_hit_tokens"},
    {MODEL_CHAT, COUNT_WRITTEN, "prompt_tokens_details.cache_write_tokens"},
    {MODEL_RESPONSES, COUNT_INPUT, "input_tokens"},
    {MODEL_RESPONSES, COUNT_OUTPUT, "output_tokens"},
    {MODEL_RESPONSES, COUNT_READ, "input_tokens_details.cached_tokens"},
    {MODEL_GEMINI, COUNT_INPUT, "promptTokenCount"},
    {MODEL_GEMINI, COUNT_OUTPUT, "candidatesTokenCount"},
    {MODEL_GEMINI, COUNT_THOUGHT, "thoughtsTokenCount"},
    {MODEL_GEMINI, COUNT_READ, "cachedContentTokenCount"},
};

/* What stands behind "usage." wherever that format has it; ptr NULL: it is not usage. */
static struct str usage_name(enum model_format format, struct str path)
{
    static const struct {
        enum model_format format;
        struct str prefix;
    } prefixes[] = {
        {MODEL_MESSAGES, {"usage.", 6}},
        {MODEL_MESSAGES, {"message.usage.", 14}},
        {MODEL_CHAT, {"usage.", 6}},
        {MODEL_CHAT, {"choices.[].usage.", 17}},
        {MODEL_RESPONSES, {"usage.", 6}},
        {MODEL_RESPONSES, {"response.usage.", 15}},
        {MODEL_GEMINI, {"usageMetadata.", 14}},
        {MODEL_GEMINI, {"[].usageMetadata.", 17}},
    };

    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        if (prefixes[i].format == format && str_starts(path, prefixes[i].prefix)) {
            return str_cut(path, prefixes[i].prefix.len, path.len);
        }
    }
    return (struct str){NULL, 0};
}

/* Streams say some figures more than once, each time with what has come so far; the largest counts.
 */
static void count_take(struct model_answer *a, const struct json_scan_value *v)
{
    struct str name = usage_name(a->format, v->path);
    uint64_t value;

    if (!name.ptr || !str_to_u64(v->text, TOKENS_MAX, &value)) {
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(count_names); i++) {
        const struct count_name *c = &count_names[i];

        if (c->format != a->format || !str_is(name, c->name)) {
            continue;
        }
        a->has_input = a->has_input || c->count == COUNT_INPUT;
        a->has_output = a->has_output || c->count == COUNT_OUTPUT;
        if (value > a->counts[c->count]) {
            a->counts[c->count] = value;
        }
    }
}

/* Keys under which all these formats put what the model wrote. */
static bool is_written(struct str path)
{
    static const char *const keys[] = {"text",         "content",   "delta",
                                       "arguments",    "thinking",  "reasoning",
                                       "partial_json", "signature", "reasoning_content"};
    size_t at = path.len;

    while (at > 0 && path.ptr[at - 1] != '.') {
        at--;
    }
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (str_is(str_cut(path, at, path.len), keys[i])) {
            return true;
        }
    }
    return false;
}

static void on_value(void *ctx, const struct json_scan_value *v)
{
    struct model_answer *a = ctx;
    uint64_t micro;

    a->is_finished = a->is_finished || is_end(a, v);
    if (v->kind == JSON_SCAN_PLAIN) {
        count_take(a, v);
    } else if ((v->kind == JSON_SCAN_STRING || v->kind == JSON_SCAN_ODD) && is_written(v->path)) {
        a->text_bytes += v->string_bytes;
    }
    if (a->cost && str_is(v->path, a->cost) && model_micro_parse(v->text, &micro)) {
        a->has_cost = true;
        a->cost_microusd = micro;
    }
}

struct model_spend model_answer_spend(const struct model_answer *a)
{
    const uint64_t *n = a->counts;
    struct model_spend s = {
        .input = n[COUNT_INPUT],
        .output = n[COUNT_OUTPUT] + n[COUNT_THOUGHT],
        .cached_read = n[COUNT_READ],
        .cached_write = n[COUNT_WRITTEN],
        .cost_microusd = a->cost_microusd,
        .has_input = a->has_input,
        .has_output = a->has_output,
        .has_cost = a->has_cost,
    };

    /* Only Anthropic's figure is without them already. */
    if (a->format != MODEL_MESSAGES) {
        uint64_t cached = s.cached_read + s.cached_write;

        s.input -= cached < s.input ? cached : s.input;
    }
    return s;
}

/* ---- money ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits with at most one point; *ret_scale: how many of them stood behind it. */
static bool mantissa_parse(struct str *text, uint64_t *ret_value, int *ret_scale)
{
    size_t at = 0;
    unsigned digits = 0;
    bool has_point = false;

    *ret_value = 0;
    *ret_scale = 0;
    for (; at < text->len && (is_digit(text->ptr[at]) || text->ptr[at] == '.'); at++) {
        if (text->ptr[at] == '.') {
            if (has_point) {
                return false;
            }
            has_point = true;
        } else if (*ret_value > 0 && digits >= COST_DIGITS_MAX) {
            *ret_scale -= !has_point; /* more digits than count */
        } else {
            *ret_value = *ret_value * 10 + (uint64_t)(text->ptr[at] - '0');
            digits += *ret_value > 0;
            *ret_scale += has_point;
        }
    }
    *text = str_cut(*text, at, text->len);
    return at > (size_t)has_point;
}

bool model_micro_parse(struct str text, uint64_t *ret_micro)
{
    uint64_t value;
    int64_t exponent = 0;
    int scale;

    if (!mantissa_parse(&text, &value, &scale)) {
        return false;
    }
    if (text.len > 1 && (text.ptr[0] | 0x20) == 'e') {
        bool has_plus = text.ptr[1] == '+';
        bool has_minus = text.ptr[1] == '-';
        uint64_t digits = 0;
        struct str rest = str_cut(text, 1 + (size_t)(has_plus || has_minus), text.len);

        while (rest.len > 1 && rest.ptr[0] == '0') {
            rest = str_cut(rest, 1, rest.len); /* "1e-05" */
        }
        if (!str_to_u64(rest, 100, &digits)) {
            return false;
        }
        exponent = has_minus ? -(int64_t)digits : (int64_t)digits;
    } else if (text.len > 0) {
        return false;
    }
    for (exponent += 6 - scale; exponent > 0 && value > 0; exponent--) {
        if (value > TOKENS_MAX) {
            return false;
        }
        value *= 10;
    }
    for (; exponent < 0 && value > 0; exponent++) {
        value = exponent == -1 ? (value + 5) / 10 : value / 10;
    }
    *ret_micro = value;
    return true;
}

/* ---- lines ---- */

/* The beginning of a line says what it is; the rest of a data line is JSON or [DONE]. */
static void line_feed(struct model_answer *a, struct str bytes)
{
    while (!a->is_line_known && bytes.len > 0) {
        a->start[a->start_len++] = bytes.ptr[0];
        bytes = str_cut(bytes, 1, bytes.len);
        if (a->start_len == 5) {
            a->is_line_known = true;
            a->is_data = str_eq(str_n(a->start, 5), STR("data:"));
            a->start_len = 0;
        }
    }
    if (!a->is_data) {
        return;
    }
    for (size_t i = 0; i < bytes.len && a->start_len < sizeof a->start; i++) {
        a->start[a->start_len++] = bytes.ptr[i];
    }
    json_scan_feed(&a->scan, bytes, on_value, a);
}

static void line_end(struct model_answer *a)
{
    if (a->is_data && a->format == MODEL_CHAT &&
        str_eq(str_trim(str_n(a->start, a->start_len)), STR("[DONE]"))) {
        a->is_finished = true;
    }
    a->is_data = a->is_line_known = false;
    a->start_len = 0;
    a->scan = (struct json_scan){0};
}

void model_answer_feed(struct model_answer *a, struct str bytes)
{
    if (a->format == MODEL_NONE) {
        return;
    }
    if (!a->is_sse) {
        json_scan_feed(&a->scan, bytes, on_value, a);
        return;
    }
    while (bytes.len > 0) {
        ptrdiff_t end = str_find(bytes, '\n');

        if (end < 0) {
            line_feed(a, bytes);
            return;
        }
        line_feed(a, str_cut(bytes, 0, (size_t)end));
        line_end(a);
        bytes = str_cut(bytes, (size_t)end + 1, bytes.len);
    }
}

bool model_answer_is_whole(const struct model_answer *a)
{
    return a->format == MODEL_NONE || !a->is_sse || a->is_finished;
}
