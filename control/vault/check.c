/*
 * Is a key good? Asked of its provider, with the key in a header, and only when somebody wants to
 * know. Worker threads; blocks for the exchange.
 */
#include <stdio.h>

#include "control/vault/outgoing.h"
#include "control/vault/vault_private.h"
#include "lib/mem.h"

#define CHECK_TIMEOUT_MS   20000
#define CHECK_ANSWER_MAX   65536 /* of a list of models; the words of a refusal are short */
#define CHECK_WORDS_MAX    200
#define CHECK_URL_MAX      1024
#define CHECK_HEADERS      3
#define CHECK_HEADER_BYTES (VAULT_KEY_BYTES_MAX + 128)

/* The provider's own words of a refusal, as text for people. */
void check_words(const struct outgoing_answer *answer, struct str secret, char *out, size_t size)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    struct err e;
    struct str words = str_trim(buf_str(&answer->body));
    if (json_parse(buf_str(&answer->body), &doc, &e) == 0) {
        const struct json_value *root = json_root(doc);
        const struct json_value *error = json_get(root, "error");
        struct str found = json_get_str(error, "message");
        found = found.ptr ? found : json_get_str(root, "error_description");
        found = found.ptr ? found : json_as_str(error);
        found = found.ptr ? found : json_get_str(root, "message");
        words = found.ptr ? found : words;
    }
    /* A provider may quote the key back; the cut comes later, so that it shows no half of one. */
    bool quotes = secret.len > 0 && str_contains(words, secret);
    words = str_cut(words, 0, CHECK_WORDS_MAX);
    bool shown = words.len > 0 && !quotes && str_is_text(words, true);
    (void)snprintf(out, size, "%.*s", shown ? (int)words.len : 0, words.ptr);
    for (char *c = out; *c; c++) {
        *c = *c == '\n' || *c == '\r' || *c == '\t' ? ' ' : *c;
    }
}

static int check_judge(const struct vault_provider *p, const struct outgoing_answer *answer,
                       struct str secret, struct err *e)
{
    char words[CHECK_WORDS_MAX + 1];
    if (answer->status >= 200 && answer->status < 300) {
        return 0;
    }
    check_words(answer, secret, words, sizeof(words));
    bool refused = answer->status == 401 || answer->status == 402 || answer->status == 403;
    return err_set(e, refused ? ERR_FORBIDDEN : ERR_UNAVAILABLE, 0, "%s %s (HTTP %ld)%s%s",
                   p->label, refused ? "does not take the key" : "could not check the key",
                   answer->status, words[0] ? ": " : "", words);
}

static int check_ask(const struct vault_provider *p, const char *const *headers, struct str secret,
                     struct err *e)
{
    struct outgoing_answer answer;
    char url[CHECK_URL_MAX];
    struct str method = str_of(p->check);
    struct str path = method;
    (void)str_split(&path, ' ', &method);
    (void)snprintf(url, sizeof(url), "%s%.*s", p->base_url, STR_FMT(path));
    struct outgoing_request request = {.method = "GET",
                                       .url = url,
                                       .headers = headers,
                                       .timeout_ms = CHECK_TIMEOUT_MS,
                                       .answer_max = CHECK_ANSWER_MAX,
                                       .cut = true};
    int rc = outgoing_perform(&request, &answer, e);
    rc = rc == 0 ? check_judge(p, &answer, secret, e) : err_wrap(e, "ask %s", p->label);
    outgoing_done(&answer);
    return rc;
}

/* Does a server that wants no key answer? */
static int check_keyless(const struct vault_provider *p, struct err *e)
{
    static const char *const headers[] = {"anthropic-version: 2023-06-01", NULL};
    return check_ask(p, headers, STR(""), e);
}

static int check_with(const struct vault_provider *p, bool login, struct str key, struct err *e)
{
    char *key_header AUTOFREE = mem_alloc(CHECK_HEADER_BYTES);
    const char *headers[CHECK_HEADERS + 1] = {key_header, "anthropic-version: 2023-06-01"};
    const char *name = login ? p->oauth->header : p->header;
    const char *prefix = login ? p->oauth->prefix : p->prefix;
    (void)snprintf(key_header, CHECK_HEADER_BYTES, "%s: %s%.*s", name, prefix, STR_FMT(key));
    if (login && p->oauth->extra[0]) {
        headers[2] = p->oauth->extra;
    }
    int rc = check_ask(p, headers, key, e);
    mem_wipe(key_header, CHECK_HEADER_BYTES);
    return rc;
}

int vault_check_key(struct vault *v, const char *provider, struct str key, struct err *e)
{
    const struct vault_provider *p = vault_provider_find(v, str_of(provider));
    struct vault_secret secret;
    if (!p) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no provider %.64s", provider);
    }
    if (!p->check[0]) {
        return err_set(e, ERR_CONFLICT, 0,
                       "%s has no request that would tell whether a key is good; a task tells",
                       p->label);
    }
    if (key.len > 0) {
        return secret_is_plain(key)
                   ? check_with(p, false, key, e)
                   : err_set(e, ERR_INVALID, 0, "an API key has visible ASCII characters only");
    }
    secret_init(&secret);
    int rc = secret_read(v, provider, &secret, e);
    if (rc == 0) {
        rc = check_with(p, secret.method == VAULT_LOGIN && p->oauth, buf_str(&secret.key), e);
    } else if (e->code == ERR_NOT_FOUND && p->keyless) {
        rc = check_keyless(p, e);
    } else if (e->code == ERR_NOT_FOUND) {
        (void)err_set(e, ERR_CONFLICT, 0, "%s has no key that could be checked", p->label);
    }
    secret_done(&secret);
    return rc;
}
