/*
 * Logins (OAuth 2 with PKCE): the way to the provider's page and back, and its token endpoint. A
 * begun login is kept in memory only, is good once and for 15 minutes. Worker threads; blocks for
 * the exchange.
 */
#include <stdio.h>

#include "control/vault/outgoing.h"
#include "control/vault/vault_private.h"
#include "lib/clock.h"
#include "lib/json_write.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define LOGIN_TIMEOUT_MS  30000
#define LOGIN_RANDOM      32
#define LOGIN_BODY_MAX    32768
#define LOGIN_ANSWER_MAX  65536
#define LOGIN_CODE_MAX    2048
#define LOGIN_EXPIRES_MAX INT64_C(31536000)
#define LOGIN_WORDS_MAX   201

/* ---- the token endpoint ---- */

int login_take(struct str body, struct vault_secret *ret, struct err *e)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    struct err why;
    int64_t expires_in = 0;
    if (json_parse(body, &doc, &why) != 0) {
        return err_set(e, ERR_PROTOCOL, 0, "the provider's answer is no JSON");
    }
    const struct json_value *v = json_root(doc);
    struct str access = json_get_str(v, "access_token");
    struct str refresh = json_get_str(v, "refresh_token");
    struct str scope = json_get_str(v, "scope");
    if (!secret_is_plain(access) || (refresh.ptr && !secret_is_plain(refresh))) {
        return err_set(e, ERR_PROTOCOL, 0, "the provider's answer holds no usable token");
    }
    buf_reset(&ret->key);
    buf_add_str(&ret->key, access);
    if (refresh.ptr) {
        buf_reset(&ret->refresh);
        buf_add_str(&ret->refresh, refresh);
    }
    bool told = json_get_int(v, "expires_in", &expires_in) && expires_in > 0 &&
                expires_in < LOGIN_EXPIRES_MAX;
    ret->expires_at = told ? clock_unix_ms() + expires_in * 1000 : 0;
    if (scope.ptr && str_is_text(scope, false)) {
        (void)snprintf(ret->scopes, sizeof(ret->scopes), "%.*s", STR_FMT(scope));
    }
    return 0;
}

int login_ask(const struct vault_oauth *o, struct str body, struct str secret_part,
              struct vault_secret *ret, struct err *e)
{
    static const char *const headers[] = {"Content-Type: application/json",
                                          "Accept: application/json", NULL};
    struct outgoing_answer answer;
    char words[LOGIN_WORDS_MAX];
    struct outgoing_request request = {.method = "POST",
                                       .url = o->token_url,
                                       .headers = headers,
                                       .body = body,
                                       .timeout_ms = LOGIN_TIMEOUT_MS,
                                       .answer_max = LOGIN_ANSWER_MAX};
    int rc = outgoing_perform(&request, &answer, e);
    if (rc == 0 && (answer.status < 200 || answer.status > 299)) {
        bool refused = answer.status == 400 || answer.status == 401 || answer.status == 403;
        check_words(&answer, secret_part, words, sizeof(words));
        rc = err_set(e, refused ? ERR_FORBIDDEN : ERR_UNAVAILABLE, 0, "HTTP %ld%s%s", answer.status,
                     words[0] ? ": " : "", words);
    } else if (rc == 0) {
        rc = login_take(buf_str(&answer.body), ret, e);
    }
    outgoing_done(&answer);
    return rc;
}

/* ---- begin ---- */

static void login_encode(struct buf *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                     (*c >= '0' && *c <= '9') || strchr("-._~", *c);
        if (plain) {
            buf_putc(out, *c);
        } else {
            buf_printf(out, "%%%02X", (unsigned)(unsigned char)*c);
        }
    }
}

static void login_challenge(const char *verifier, struct buf *out)
{
    uint8_t hash[CRYPTO_SHA256_BYTES];
    crypto_sha256(str_of(verifier), hash);
    crypto_base64(str_n(hash, sizeof(hash)), true, out);
}

/* The order of the parameters matters to the provider. */
static void login_url(const struct vault_oauth *o, const struct vault_login *login, struct buf *out)
{
    BUF_AUTO(challenge, 128);
    login_challenge(login->verifier, &challenge);
    const char *const parameters[][2] = {
        {"code", "true"},
        {"client_id", o->client_id},
        {"response_type", "code"},
        {"redirect_uri", o->redirect_uri},
        {"scope", o->scopes},
        {"code_challenge", challenge.ptr},
        {"code_challenge_method", "S256"},
        {"state", login->state},
    };
    buf_puts(out, o->authorize_url);
    for (size_t i = 0; i < ARRAY_LEN(parameters); i++) {
        buf_printf(out, "%c%s=", i == 0 ? '?' : '&', parameters[i][0]);
        login_encode(out, parameters[i][1]);
    }
}

static void login_random(char *out, size_t size)
{
    BUF_AUTO(token, 64);
    crypto_token(&token, "", LOGIN_RANDOM);
    (void)snprintf(out, size, "%s", token.ptr);
    mem_wipe(token.ptr, token.len);
}

/* A free place, else that of the oldest. The lock is held. */
static struct vault_login *login_place(struct vault *v)
{
    struct vault_login *oldest = &v->logins[0];
    int64_t now = clock_mono_ms();
    for (size_t i = 0; i < VAULT_LOGINS_MAX; i++) {
        struct vault_login *login = &v->logins[i];
        if (!login->provider[0] || now >= login->until_ms) {
            return login;
        }
        oldest = login->until_ms < oldest->until_ms ? login : oldest;
    }
    return oldest;
}

static const struct vault_provider *login_provider(struct vault *v, const char *provider,
                                                   struct err *e)
{
    const struct vault_provider *p = vault_provider_find(v, str_of(provider));
    if (!p || !p->oauth) {
        (void)err_set(e, ERR_INVALID, 0, "%.64s has no login; store an API key", provider);
        return NULL;
    }
    return p;
}

int vault_login_start(struct vault *v, const char *provider, struct buf *ret_url, struct err *e)
{
    const struct vault_provider *p = login_provider(v, provider, e);
    if (!p) {
        return -1;
    }
    LOCK_GUARD(&v->lock);
    struct vault_login *login = login_place(v);
    (void)snprintf(login->provider, sizeof(login->provider), "%s", p->id);
    login_random(login->state, sizeof(login->state));
    login_random(login->verifier, sizeof(login->verifier));
    login->until_ms = clock_mono_ms() + VAULT_LOGIN_S * 1000;
    login_url(p->oauth, login, ret_url);
    return buf_ok(ret_url) ? 0 : err_set(e, ERR_INTERNAL, 0, "the address is too long");
}

/* ---- end ---- */

/* Takes the begun login out: whatever comes of it, its state is used. */
static bool login_claim(struct vault *v, const char *provider, struct str state,
                        struct vault_login *ret)
{
    bool found = false;
    LOCK_GUARD(&v->lock);
    for (size_t i = 0; i < VAULT_LOGINS_MAX; i++) {
        struct vault_login *login = &v->logins[i];
        if (login->provider[0] && strcmp(login->provider, provider) == 0 &&
            str_eq_secret(str_of(login->state), state)) {
            found = clock_mono_ms() < login->until_ms;
            *ret = *login;
            mem_wipe(login, sizeof(*login));
        }
    }
    return found;
}

static void login_body(const struct vault_oauth *o, const struct vault_login *login,
                       struct str code, struct buf *out)
{
    struct json_writer w;
    json_begin(&w, out);
    json_object(&w, NULL);
    json_text(&w, "grant_type", "authorization_code");
    json_str(&w, "code", code);
    json_text(&w, "state", login->state);
    json_text(&w, "client_id", o->client_id);
    json_text(&w, "redirect_uri", o->redirect_uri);
    json_text(&w, "code_verifier", login->verifier);
    json_object_end(&w);
}

static int login_store(struct vault *v, const char *provider, struct vault_secret *secret,
                       struct err *e)
{
    struct ulid id = ulid_new();
    memcpy(secret->key_id, id.text, sizeof(secret->key_id));
    secret->method = VAULT_LOGIN;
    secret->connected_at = clock_unix_ms();
    LOCK_GUARD(&v->keys_lock);
    return secret_write(v, provider, secret, e);
}

static int login_exchange(struct vault *v, const struct vault_provider *p,
                          const struct vault_login *login, struct str code, struct err *e)
{
    BUF_AUTO(body, LOGIN_BODY_MAX);
    struct vault_secret secret;
    secret_init(&secret);
    login_body(p->oauth, login, code, &body);
    int rc = login_ask(p->oauth, buf_str(&body), code, &secret, e);
    rc = rc == 0 ? login_store(v, p->id, &secret, e)
                 : err_wrap(e, "%s did not complete the login", p->label);
    mem_wipe(body.ptr, body.len);
    secret_done(&secret);
    if (rc == 0) {
        renewal_wake(v);
    }
    return rc;
}

int vault_login_finish(struct vault *v, const char *provider, struct str code, struct err *e)
{
    struct vault_login login = {0};
    const struct vault_provider *p = login_provider(v, provider, e);
    struct str state = str_trim(code);
    struct str part = {NULL, 0};
    if (!p) {
        return -1;
    }
    if (state.len > LOGIN_CODE_MAX || str_find(state, '#') < 1 || !str_split(&state, '#', &part) ||
        !secret_is_plain(part) || !secret_is_plain(state)) {
        return err_set(e, ERR_INVALID, 0,
                       "code: paste all of what the page shows, it has the form code#state");
    }
    if (!login_claim(v, p->id, state, &login)) {
        mem_wipe(&login, sizeof(login));
        return err_set(e, ERR_INVALID, 0,
                       "no login waits for that code: it was used, or began more than 15 minutes "
                       "ago; start again");
    }
    int rc = login_exchange(v, p, &login, part, e);
    mem_wipe(&login, sizeof(login));
    return rc;
}
