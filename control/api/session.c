/*
 * Console sign-in. Worker threads. Codes and session tokens are stored as SHA-256 only; the
 * password as Argon2id.
 */
#include "control/api/session.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>

#include "control/api/api.h"
#include "control/store/settings.h"
#include "lib/clock.h"
#include "lib/crypto.h"
#include "lib/thread.h"

#define SESSION_CODE_BYTES         16
#define SESSION_TOKEN_BYTES        32
#define SESSION_LIFE_MS            (30LL * 24 * 3600 * 1000)
#define SESSION_PASSWORD_BYTES_MIN 10
#define SESSION_PASSWORD_BYTES_MAX 256
#define SESSION_WRONG_MAX          10
#define SESSION_LOCK_MS            60000
#define SESSION_ADDRESS_BYTES      64
#define SESSION_CLIENTS            256
#define SESSION_CODE_KEY           "console_code_hash"
#define SESSION_PASSWORD_KEY       "console_password"

/* ---- wrong tries ---- */

struct session_client {
    char address[SESSION_ADDRESS_BYTES];
    int wrong;
    int64_t locked_until_ms;
    int64_t used_ms;
};

static pthread_mutex_t session_lock = PTHREAD_MUTEX_INITIALIZER;
static struct session_client session_clients[SESSION_CLIENTS];
/* Argon2id takes 19 MiB each: two at a time. */
static pthread_mutex_t session_hash_lock = PTHREAD_MUTEX_INITIALIZER;

/* The client as the edge saw it: the last element of X-Forwarded-For; the console's port is reached
 * through it only. */
static struct str session_address(const struct http_request *r)
{
    struct str list = http_header(r, "x-forwarded-for");
    struct str part = {"", 0};
    struct in6_addr v6;
    while (list.len > 0 && str_split(&list, ',', &part)) {
    }
    part = str_trim(part);
    if (part.len == 0 || part.len >= SESSION_ADDRESS_BYTES) {
        return str_of(r->peer);
    }
    const char *text = arena_str(r->arena, part);
    if (inet_pton(AF_INET6, text, &v6) != 1 || IN6_IS_ADDR_V4MAPPED(&v6)) {
        return str_of(text);
    }
    /* Whoever has one IPv6 address has its whole /64. */
    memset(v6.s6_addr + 8, 0, 8);
    char network[INET6_ADDRSTRLEN] = "";
    (void)inet_ntop(AF_INET6, &v6, network, sizeof(network));
    return str_of(arena_strdup(r->arena, network));
}

/* The client's slot, or the one unused for longest. Under the lock. */
static struct session_client *session_client_of(struct str address)
{
    struct session_client *oldest = &session_clients[0];
    for (size_t i = 0; i < SESSION_CLIENTS; i++) {
        struct session_client *c = &session_clients[i];
        if (c->address[0] && str_is(address, c->address)) {
            return c;
        }
        oldest = c->used_ms < oldest->used_ms ? c : oldest;
    }
    *oldest = (struct session_client){0};
    (void)snprintf(oldest->address, sizeof(oldest->address), "%.*s", STR_FMT(address));
    return oldest;
}

static bool session_may_try(const struct http_request *r, struct http_response *p)
{
    LOCK_GUARD(&session_lock);
    struct session_client *c = session_client_of(session_address(r));
    c->used_ms = clock_mono_ms();
    if (c->locked_until_ms > c->used_ms) {
        int seconds = (int)((c->locked_until_ms - c->used_ms) / 1000) + 1;
        http_error(p, "too_many_requests", "too many wrong tries; the next one is taken in %d s",
                   seconds);
        http_retry_after(p, seconds);
        return false;
    }
    return true;
}

static void session_tried(const struct http_request *r, bool right)
{
    LOCK_GUARD(&session_lock);
    struct session_client *c = session_client_of(session_address(r));
    c->wrong = right ? 0 : c->wrong + 1;
    if (c->wrong >= SESSION_WRONG_MAX) {
        c->locked_until_ms = clock_mono_ms() + SESSION_LOCK_MS;
    }
}

/* ---- sessions ---- */

static bool session_secure(const struct api *api, const struct http_request *r)
{
    /* Through a tunnel the browser speaks plain HTTP to localhost even when the domain has TLS. */
    return api->config->preview_tls && !str_starts(r->host, STR("console.localhost"));
}

static const char *session_cookie_name(const struct api *api, const struct http_request *r)
{
    return session_secure(api, r) ? "__Host-sandboxd_session" : "sandboxd_session";
}

const char *api_session_name(struct api *api, const struct http_request *r)
{
    char hash[CRYPTO_SHA256_HEX];
    char name[ACCESS_SESSION_BYTES];
    struct str token;
    size_t pos = 0;
    while (http_cookie(r, &pos, session_cookie_name(api, r), &token)) {
        crypto_sha256_hex(token, hash);
        if (token.len > 0 && sessions_find(api->db, hash, name)) {
            return arena_strdup(r->arena, name);
        }
    }
    return "";
}

bool api_session_valid(struct api *api, const struct http_request *r)
{
    return api_session_name(api, r)[0] != '\0';
}

static void session_set_cookie(struct api *api, const struct http_request *r,
                               struct http_response *p, const char *token, int64_t max_age_s)
{
    char line[256];
    (void)snprintf(line, sizeof(line), "%s=%s; Path=/; Max-Age=%lld; HttpOnly; SameSite=Strict%s",
                   session_cookie_name(api, r), token, (long long)max_age_s,
                   session_secure(api, r) ? "; Secure" : "");
    http_add_header(p, "Set-Cookie", line);
}

static void session_begin(struct api *api, struct http_request *r, struct http_response *p)
{
    BUF_AUTO(token, 128);
    char hash[CRYPTO_SHA256_HEX];
    struct err e;
    crypto_token(&token, "", SESSION_TOKEN_BYTES);
    crypto_sha256_hex(buf_str(&token), hash);
    if (sessions_add(api->db, hash, clock_unix_ms() + SESSION_LIFE_MS, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    session_set_cookie(api, r, p, token.ptr, SESSION_LIFE_MS / 1000);
    p->status = 204;
}

static void session_event(struct api *api, const char *kind, const char *severity)
{
    events_add(api->db,
               &(struct event_row){.kind = kind, .severity = severity, .actor = "console"});
}

/* ---- handlers ---- */

void api_session_get(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    const char *password = "";
    struct err e;
    struct json_writer w;
    if (settings_get(api->db, SESSION_PASSWORD_KEY, r->arena, &password, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    json_begin(&w, &p->body);
    json_object(&w, NULL);
    json_bool(&w, "authenticated", api_session_valid(api, r));
    json_bool(&w, "password_set", password[0] != '\0');
    json_object_end(&w);
    api_json(p, 200);
}

static bool session_read(struct http_request *r, struct http_response *p, const char **ret_code,
                         const char **ret_password)
{
    static const char *const with_code[] = {"code", "password", NULL};
    static const char *const without[] = {"password", NULL};
    struct json_doc *doc AUTO(json_doc) = api_body(r, p, ret_code ? with_code : without);
    if (!doc ||
        (ret_code && !api_opt_text(json_root(doc), "code", 64, false, r->arena, ret_code, p)) ||
        !api_opt_text(json_root(doc), "password", SESSION_PASSWORD_BYTES_MAX, false, r->arena,
                      ret_password, p)) {
        return false;
    }
    return true;
}

/* The code is spent and the password set in that order: a code never counts twice. */
static bool session_spend_code(struct api *api, const char *code, struct err *e)
{
    char hash[CRYPTO_SHA256_HEX];
    bool taken = false;
    crypto_sha256_hex(str_of(code), hash);
    if (settings_take(api->db, SESSION_CODE_KEY, hash, &taken, e) != 0) {
        return false;
    }
    if (!taken) {
        (void)err_set(
            e, ERR_UNAUTHORIZED, 0,
            "this code is wrong or was used already; `docker compose exec sandboxd sandboxd "
            "console-code` in ~/.sandboxd/src makes a new one");
    }
    return taken;
}

void api_session_setup(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    const char *code = "";
    const char *password = "";
    struct err e;
    BUF_AUTO(encoded, 512);
    if (!session_may_try(r, p) || !session_read(r, p, &code, &password)) {
        return;
    }
    if (strlen(password) < SESSION_PASSWORD_BYTES_MIN) {
        http_error(p, "invalid_request", "the password must have at least %d characters",
                   SESSION_PASSWORD_BYTES_MIN);
        return;
    }
    {
        LOCK_GUARD(&session_hash_lock);
        if (crypto_password_hash(str_of(password), &encoded, &e) != 0) {
            http_error_from(p, &e);
            return;
        }
    }
    bool right = session_spend_code(api, code, &e);
    session_tried(r, right);
    if (!right) {
        http_error_from(p, &e);
        return;
    }
    if (settings_set(api->db, SESSION_PASSWORD_KEY, encoded.ptr, &e) != 0 ||
        sessions_remove_all(api->db, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    sandbox_access_sweep(api->sandboxes);
    session_event(api, "console.password_set", "info");
    session_begin(api, r, p);
}

void api_session_open(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    const char *password = "";
    const char *encoded = "";
    struct err e;
    if (!session_may_try(r, p) || !session_read(r, p, NULL, &password)) {
        return;
    }
    if (settings_get(api->db, SESSION_PASSWORD_KEY, r->arena, &encoded, &e) != 0) {
        http_error_from(p, &e);
        return;
    }
    bool right = false;
    {
        LOCK_GUARD(&session_hash_lock);
        right = encoded[0] && crypto_password_check(str_of(password), str_of(encoded));
    }
    session_tried(r, right);
    if (!right) {
        session_event(api, "console.sign_in_refused", "warning");
        http_error(p, "unauthorized", "%s",
                   encoded[0] ? "wrong password"
                              : "no password is set yet; open the address with the one-time code");
        return;
    }
    session_event(api, "console.signed_in", "info");
    session_begin(api, r, p);
}

void api_session_close(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    char hash[CRYPTO_SHA256_HEX];
    struct str token;
    size_t pos = 0;
    struct err e;
    while (http_cookie(r, &pos, session_cookie_name(api, r), &token)) {
        crypto_sha256_hex(token, hash);
        if (sessions_remove(api->db, hash, &e) != 0) {
            http_error_from(p, &e);
            return;
        }
    }
    sandbox_access_sweep(api->sandboxes);
    session_set_cookie(api, r, p, "", 0);
    p->status = 204;
}

int session_new_code(struct db *db, struct buf *ret_code, struct err *e)
{
    char hash[CRYPTO_SHA256_HEX];
    size_t from = ret_code->len;
    crypto_token(ret_code, "", SESSION_CODE_BYTES);
    crypto_sha256_hex(str_cut(buf_str(ret_code), from, ret_code->len), hash);
    if (settings_set(db, SESSION_CODE_KEY, hash, e) != 0 || sessions_remove_all(db, e) != 0) {
        return -1;
    }
    events_add(db, &(struct event_row){.kind = "console.code_created", .severity = "warning"});
    return 0;
}
