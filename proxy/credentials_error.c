/*
 * What a provider's error means.
 *
 * Must never take a limit of the minute for one of the purse: only codes that providers give for
 * the latter count, not words that both sorts use. Pure functions.
 */
#include "proxy/credentials_error.h"

#include <stdio.h>

#include "lib/json_read.h"
#include "lib/mem.h"

/* Codes and types of 429 answers that no waiting cures. */
static const char *const purse_codes[] = {
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "insufficient_balance",
    "insufficient_credits",
    "credits_exhausted",
    "CreditsError",
    "MonthlyLimitError",
    "UserLimitError",
    "FreeUsageLimitError",
    "usage_limit_reached",
    "usage_not_included",
    "SubscriptionUsageLimitError",
};

/* Sentences of providers that have no code for it. */
static const char *const purse_words[] = {
    "insufficient balance",
    "credit balance is too low",
};

static bool is_purse_code(struct str code)
{
    for (size_t i = 0; i < ARRAY_LEN(purse_codes); i++) {
        if (str_eq_nocase(code, str_of(purse_codes[i]))) {
            return true;
        }
    }
    return false;
}

static bool has_purse_words(struct str message)
{
    for (size_t i = 0; i < ARRAY_LEN(purse_words); i++) {
        size_t len = strlen(purse_words[i]);

        for (size_t at = 0; at + len <= message.len; at++) {
            if (str_eq_nocase(str_cut(message, at, at + len), str_of(purse_words[i]))) {
                return true;
            }
        }
    }
    return false;
}

/* Lines become one; what is no text is left out. */
static void words_take(struct provider_error *e, struct str words)
{
    size_t len = 0;

    words = str_trim(words);
    for (size_t i = 0; i < words.len && len < PROVIDER_WORDS_MAX; i++) {
        unsigned char c = (unsigned char)words.ptr[i];

        if (c != 0x7f && (c >= ' ' || c == '\n' || c == '\t')) {
            e->message[len++] = (char)(c < ' ' ? ' ' : c);
        }
    }
    /* Not in the middle of a character. */
    while (len > 0 && !str_is_text(str_n(e->message, len), false)) {
        len--;
    }
    e->message[len] = '\0';
}

static void body_read(struct provider_error *e, struct str body, bool *ret_is_purse)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    struct err ignored;

    if (json_parse(body, &doc, &ignored) != 0) {
        words_take(e, body.len > 0 && body.ptr[0] == '<' ? STR("") : body);
        return;
    }

    const struct json_value *root = json_root(doc);
    /* Gemini puts it into an array of one. */
    const struct json_value *top = json_is_array(root) ? json_at(root, 0) : root;
    const struct json_value *error = json_get(top, "error");
    struct str candidates[] = {json_get_str(error, "message"), json_as_str(error),
                               json_get_str(top, "message"), json_get_str(top, "detail")};

    for (size_t i = 0; i < ARRAY_LEN(candidates) && e->message[0] == '\0'; i++) {
        words_take(e, candidates[i]);
    }
    *ret_is_purse = is_purse_code(json_get_str(error, "code")) ||
                    is_purse_code(json_get_str(error, "type")) ||
                    has_purse_words(str_of(e->message));
}

/* Codex asks again after any of these but 400. */
unsigned permanent_status(enum model_format format, unsigned status)
{
    return format == MODEL_RESPONSES ? 400 : status;
}

void provider_error_read(struct provider_error *ret, enum model_format format, unsigned status,
                         struct str body)
{
    bool is_purse = false;

    *ret = (struct provider_error){.status = status};
    body_read(ret, body, &is_purse);
    if (status == 429 && is_purse) {
        status = 402;
    }
    if (status >= 400 && status <= 404) {
        ret->is_permanent = true;
        ret->status = permanent_status(format, status);
    }
}
