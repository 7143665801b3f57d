/*
 * Requests to models: who is asked, for how much.
 *
 * Must never let a second spelling of a member pass that decides on the price: whoever reads the
 * body at the provider may take the other one. Pure functions.
 */
#include "proxy/model_request.h"

#include <stdio.h>

#include "lib/mem.h"

#define TOKENS_MAX  1000000000ULL
#define CHOICES_MAX 1000ULL
/* What is reserved for each of several answers when the request says no limit. */
#define CHOICE_TOKENS 32000ULL

void model_request_begin(struct model_request *r, enum model_format format, struct str path)
{
    size_t at = path.len;
    ptrdiff_t colon;

    *r = (struct model_request){0};
    if (format != MODEL_GEMINI) {
        return;
    }
    while (at > 0 && path.ptr[at - 1] != '/') {
        at--;
    }
    path = str_cut(path, at, path.len);
    colon = str_find(path, ':');
    if (colon > 0 && colon <= MODEL_NAME_MAX) {
        (void)snprintf(r->model, sizeof r->model, "%.*s", (int)colon, path.ptr);
        r->is_stream = str_ends(path, STR(":streamGenerateContent"));
    }
}

static void problem(struct model_request *r, const char *what)
{
    if (!r->problem) {
        r->problem = what;
    }
}

static void take_model(struct model_request *r, const struct json_scan_value *v)
{
    if (v->kind != JSON_SCAN_STRING || v->text.len == 0 || !str_is_text(v->text, false)) {
        problem(r, "the body's \"model\" must be a plain name of at most 128 bytes");
    } else if (r->model[0] != '\0' && !str_is(v->text, r->model)) {
        problem(r, "the request names two models");
    } else {
        (void)snprintf(r->model, sizeof r->model, "%.*s", STR_FMT(v->text));
    }
}

/* Several members may limit the answer; the largest is what can be spent. */
static void take_max(struct model_request *r, const struct json_scan_value *v)
{
    uint64_t value;

    if (v->kind == JSON_SCAN_PLAIN && str_is(v->text, "null")) {
        return;
    }
    if (v->kind != JSON_SCAN_PLAIN || !str_to_u64(v->text, TOKENS_MAX, &value)) {
        problem(r, "the limit of tokens in the body must be a plain number");
        return;
    }
    r->has_max = true;
    if (value > r->max_tokens) {
        r->max_tokens = value;
    }
}

static void take_choices(struct model_request *r, const struct json_scan_value *v)
{
    uint64_t value;

    if (v->kind == JSON_SCAN_PLAIN && str_is(v->text, "null")) {
        return;
    }
    if (v->kind != JSON_SCAN_PLAIN || !str_to_u64(v->text, CHOICES_MAX, &value)) {
        problem(r, "the number of choices in the body must be a plain number");
        return;
    }
    r->has_choices = true;
    if (value > r->choices) {
        r->choices = value;
    }
}

static void on_value(void *ctx, const struct json_scan_value *v)
{
    static const char *const limits[] = {"max_tokens", "max_completion_tokens", "max_output_tokens",
                                         "generationConfig.maxOutputTokens",
                                         "generation_config.max_output_tokens"};
    static const char *const choices[] = {"n", "generationConfig.candidateCount",
                                          "generation_config.candidate_count"};
    struct model_request *r = ctx;

    if (str_is(v->path, "?") || str_is(v->path, "generationConfig.?") ||
        str_is(v->path, "generation_config.?")) {
        problem(r, "the body has a member whose name is written with an escape");
    } else if (str_is(v->path, "model")) {
        take_model(r, v);
    } else if (str_is(v->path, "stream")) {
        r->is_stream = str_is(v->text, "true");
    }
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        if (str_is(v->path, limits[i])) {
            take_max(r, v);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(choices); i++) {
        if (str_is(v->path, choices[i])) {
            take_choices(r, v);
        }
    }
}

void model_request_feed(struct model_request *r, struct str bytes)
{
    json_scan_feed(&r->scan, bytes, on_value, r);
}

uint64_t model_request_max_tokens(const struct model_request *r)
{
    if (r->choices <= 1) {
        return r->max_tokens;
    }
    return r->choices * (r->max_tokens > 0 ? r->max_tokens : CHOICE_TOKENS);
}
