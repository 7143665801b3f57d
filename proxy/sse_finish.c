/*
 * Finish markers of OpenAI's chat completions and responses, of Anthropic's messages and of Gemini.
 *
 * Must never look for a marker in anything but the structure of a data line: the text of a model
 * may contain all of them. Pure functions.
 */
#include "proxy/sse_finish.h"

#include <stddef.h>

#include "lib/mem.h"

static bool is_terminal_type(enum sse_kind kind, struct str type)
{
    static const char *const responses[] = {"response.completed", "response.failed",
                                            "response.incomplete", "error"};

    if (kind == SSE_MESSAGES) {
        return str_is(type, "message_stop") || str_is(type, "error");
    }
    for (size_t i = 0; kind == SSE_RESPONSES && i < ARRAY_LEN(responses); i++) {
        if (str_is(type, responses[i])) {
            return true;
        }
    }
    return false;
}

static void on_value(void *ctx, unsigned depth, struct str key, struct str value)
{
    struct sse_finish *f = ctx;

    if (depth == 1 && !value.ptr) {
        f->is_finished = f->is_finished || str_is(key, "error");
    } else if (depth == 1 && str_is(key, "type")) {
        f->is_finished = f->is_finished || is_terminal_type(f->kind, value);
    } else if (depth == 3 && value.len > 0 &&
               ((f->kind == SSE_CHAT && str_is(key, "finish_reason")) ||
                (f->kind == SSE_GEMINI && str_is(key, "finishReason")))) {
        f->is_finished = true;
    }
}

enum sse_kind sse_kind_of(struct str path)
{
    if (str_ends(path, STR("/chat/completions"))) {
        return SSE_CHAT;
    }
    if (str_ends(path, STR("/messages"))) {
        return SSE_MESSAGES;
    }
    if (str_ends(path, STR("/responses"))) {
        return SSE_RESPONSES;
    }
    return str_ends(path, STR(":streamGenerateContent")) ? SSE_GEMINI : SSE_NONE;
}

/* The beginning of a line says what it is; the rest of a data line is JSON or [DONE]. */
static void line_feed(struct sse_finish *f, struct str bytes)
{
    while (!f->is_line_known && bytes.len > 0) {
        f->start[f->start_len++] = bytes.ptr[0];
        bytes = str_cut(bytes, 1, bytes.len);
        if (f->start_len == 5) {
            f->is_line_known = true;
            f->is_data = str_eq(str_n(f->start, 5), STR("data:"));
            f->start_len = 0;
        }
    }
    if (!f->is_data) {
        return;
    }
    for (size_t i = 0; i < bytes.len && f->start_len < sizeof f->start; i++) {
        f->start[f->start_len++] = bytes.ptr[i];
    }
    json_scan_feed(&f->scan, bytes, on_value, f);
}

static void line_end(struct sse_finish *f)
{
    if (f->is_data && f->kind == SSE_CHAT &&
        str_eq(str_trim(str_n(f->start, f->start_len)), STR("[DONE]"))) {
        f->is_finished = true;
    }
    f->is_data = f->is_line_known = false;
    f->start_len = 0;
    f->scan = (struct json_scan){0};
}

void sse_finish_feed(struct sse_finish *f, struct str bytes)
{
    while (bytes.len > 0 && !f->is_finished) {
        ptrdiff_t end = str_find(bytes, '\n');

        if (end < 0) {
            line_feed(f, bytes);
            return;
        }
        line_feed(f, str_cut(bytes, 0, (size_t)end));
        line_end(f);
        bytes = str_cut(bytes, (size_t)end + 1, bytes.len);
    }
}

bool sse_finish_is_whole(const struct sse_finish *f)
{
    return f->kind == SSE_NONE || f->is_finished;
}
