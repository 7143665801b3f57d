/*
 * Keys and logins of providers: one sealed box each in agent-auth/, opened only for the broker, a
 * check or a renewal. Memory keeps what may be told of them, never themselves. Any thread; blocks
 * for a file's time.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "control/vault/vault_private.h"
#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/paths.h"
#include "lib/thread.h"

#define KEYS_PLAIN_BYTES_MAX 16384

static char *keys_path(const struct vault *v, const char *provider, char out[PATHS_MAX])
{
    char rest[96];
    (void)snprintf(rest, sizeof(rest), "agent-auth/%s.box", provider);
    return paths_join(out, v->config->data_dir, rest);
}

void secret_init(struct vault_secret *s)
{
    *s = (struct vault_secret){.method = VAULT_NO_KEY};
    buf_init(&s->key, VAULT_KEY_BYTES_MAX + 1);
    buf_init(&s->refresh, VAULT_KEY_BYTES_MAX + 1);
}

void secret_done(struct vault_secret *s)
{
    buf_wipe(&s->key);
    buf_wipe(&s->refresh);
}

bool secret_is_plain(struct str key)
{
    for (size_t i = 0; i < key.len; i++) {
        if (key.ptr[i] <= ' ' || key.ptr[i] >= 0x7f) {
            return false;
        }
    }
    return key.len > 0 && key.len <= VAULT_KEY_BYTES_MAX;
}

/* ---- what a box holds ---- */

static void secret_write_json(const struct vault_secret *s, struct buf *out)
{
    struct json_writer w;
    json_begin(&w, out);
    json_object(&w, NULL);
    json_text(&w, "method", s->method == VAULT_LOGIN ? "login" : "api_key");
    json_str(&w, "key", buf_str(&s->key));
    json_str(&w, "refresh", buf_str(&s->refresh));
    json_text(&w, "key_id", s->key_id);
    json_text(&w, "scopes", s->scopes);
    json_int(&w, "connected_at", s->connected_at);
    json_int(&w, "expires_at", s->expires_at);
    json_bool(&w, "renewing", s->renewing);
    json_bool(&w, "reconnect", s->reconnect);
    json_bool(&w, "imported", s->imported);
    json_text(&w, "message", s->message);
    json_object_end(&w);
}

static void secret_text(const struct json_value *v, const char *key, char *out, size_t size)
{
    (void)snprintf(out, size, "%.*s", STR_FMT(json_get_str(v, key)));
}

static int secret_read_json(struct str plain, struct vault_secret *ret, struct err *e)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    struct err why;
    if (json_parse(plain, &doc, &why) != 0) {
        /* Its words may quote the secret. */
        return err_set(e, ERR_INVALID, 0, "what it holds is malformed");
    }
    const struct json_value *v = json_root(doc);
    ret->method = str_is(json_get_str(v, "method"), "login") ? VAULT_LOGIN : VAULT_API_KEY;
    buf_add_str(&ret->key, json_get_str(v, "key"));
    buf_add_str(&ret->refresh, json_get_str(v, "refresh"));
    secret_text(v, "key_id", ret->key_id, sizeof(ret->key_id));
    secret_text(v, "scopes", ret->scopes, sizeof(ret->scopes));
    secret_text(v, "message", ret->message, sizeof(ret->message));
    (void)json_get_int(v, "connected_at", &ret->connected_at);
    (void)json_get_int(v, "expires_at", &ret->expires_at);
    (void)json_get_bool(v, "renewing", &ret->renewing);
    (void)json_get_bool(v, "reconnect", &ret->reconnect);
    (void)json_get_bool(v, "imported", &ret->imported);
    return buf_ok(&ret->key) && buf_ok(&ret->refresh)
               ? 0
               : err_set(e, ERR_INVALID, 0, "what it holds is too long");
}

int secret_read(struct vault *v, const char *provider, struct vault_secret *ret, struct err *e)
{
    BUF_WIPED(plain, KEYS_PLAIN_BYTES_MAX);
    char path[PATHS_MAX];
    char *box AUTOFREE = NULL;
    size_t len = 0;
    if (fd_read_file(keys_path(v, provider, path), VAULT_BOX_BYTES_MAX, &box, &len, e) != 0) {
        return -1;
    }
    int rc =
        crypto_open(&v->master, VAULT_PURPOSE_KEY, provider, str_trim(str_n(box, len)), &plain, e);
    rc = rc == 0 ? secret_read_json(buf_str(&plain), ret, e) : rc;
    return rc;
}

/* ---- what may be told of it ---- */

static struct vault_credential keys_told(const struct vault_secret *s)
{
    struct vault_credential c = {.method = s->method,
                                 .reconnect = s->reconnect,
                                 .imported = s->imported,
                                 .connected_at = s->connected_at,
                                 .expires_at = s->expires_at};
    (void)snprintf(c.key_id, sizeof(c.key_id), "%s", s->key_id);
    (void)snprintf(c.message, sizeof(c.message), "%s", s->message);
    return c;
}

static void keys_note(struct vault *v, const char *provider, const struct vault_credential *c)
{
    {
        LOCK_GUARD(&v->lock);
        int index = vault_slot_of(v, provider);
        if (index >= 0) {
            v->slots[index].credential = *c;
        }
        v->changed = true;
    }
    vault_broker_wake(v);
}

int secret_write(struct vault *v, const char *provider, const struct vault_secret *secret,
                 struct err *e)
{
    BUF_WIPED(plain, KEYS_PLAIN_BYTES_MAX);
    BUF_AUTO(box, VAULT_BOX_BYTES_MAX);
    char path[PATHS_MAX];
    /* A box without its provider would be found by nobody, but by the next one of that name. */
    if (!vault_provider_find(v, str_of(provider))) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no provider %.64s", provider);
    }
    secret_write_json(secret, &plain);
    crypto_seal(&v->master, VAULT_PURPOSE_KEY, provider, buf_str(&plain), &box);
    buf_putc(&box, '\n');
    if (!buf_ok(&plain) || !buf_ok(&box)) {
        return err_set(e, ERR_LIMIT, 0, "the key of %s is too long", provider);
    }
    if (fd_write_file(keys_path(v, provider, path), buf_str(&box), 0600, e) != 0) {
        return -1;
    }
    struct vault_credential told = keys_told(secret);
    keys_note(v, provider, &told);
    return 0;
}

static int keys_load_one(struct vault *v, const char *provider, struct err *e)
{
    struct vault_secret secret;
    struct err why;
    secret_init(&secret);
    int rc = secret_read(v, provider, &secret, &why);
    struct vault_credential told = keys_told(&secret);
    secret_done(&secret);
    if (rc == 0) {
        keys_note(v, provider, &told);
        return 0;
    }
    if (why.code == ERR_NOT_FOUND) {
        return 0;
    }
    return err_set(e, ERR_INVALID, 0,
                   "agent-auth/%s.box does not open (%s): put the right secrets.key or "
                   "SANDBOXD_SECRETS_KEY back, or remove that file and connect again",
                   provider, why.msg);
}

int vault_load_keys(struct vault *v, struct err *e)
{
    const struct vault_provider *all[VAULT_PROVIDERS_MAX];
    size_t count = vault_provider_list(v, all);
    for (size_t i = 0; i < count; i++) {
        if (!all[i]->is_kind && keys_load_one(v, all[i]->id, e) != 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- asked by others ---- */

struct vault_credential vault_credential_get(struct vault *v, const char *provider)
{
    LOCK_GUARD(&v->lock);
    int index = vault_slot_of(v, provider);
    return index >= 0 ? v->slots[index].credential
                      : (struct vault_credential){.method = VAULT_NO_KEY};
}

bool vault_has_key(struct vault *v, const char *provider)
{
    LOCK_GUARD(&v->lock);
    int index = vault_slot_of(v, provider);
    if (index < 0) {
        return false;
    }
    const struct vault_credential *c = &v->slots[index].credential;
    return (c->method != VAULT_NO_KEY && !c->reconnect) || v->slots[index].provider->keyless;
}

void vault_key_id(struct vault *v, const char *provider, char ret[ULID_LEN + 1])
{
    struct vault_credential c = vault_credential_get(v, provider);
    memcpy(ret, c.key_id, ULID_LEN + 1);
}

int secret_check_key(struct str key, struct err *e)
{
    return secret_is_plain(key)
               ? 0
               : err_set(e, ERR_INVALID, 0,
                         "an API key has 1 to %d visible ASCII characters without blanks",
                         VAULT_KEY_BYTES_MAX);
}

int vault_set_key(struct vault *v, const char *provider, struct str key, struct err *e)
{
    struct vault_secret secret;
    if (secret_check_key(key, e) != 0) {
        return -1;
    }
    secret_init(&secret);
    secret.method = VAULT_API_KEY;
    secret.connected_at = clock_unix_ms();
    struct ulid id = ulid_new();
    memcpy(secret.key_id, id.text, sizeof(secret.key_id));
    buf_add_str(&secret.key, key);
    LOCK_GUARD(&v->keys_lock);
    int rc = secret_write(v, provider, &secret, e);
    secret_done(&secret);
    return rc;
}

int secret_remove(struct vault *v, const char *provider, bool *ret_removed, struct err *e)
{
    static const struct vault_credential none = {.method = VAULT_NO_KEY};
    char path[PATHS_MAX];
    *ret_removed = false;
    if (!vault_provider_find(v, str_of(provider))) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no provider %.64s", provider);
    }
    if (unlink(keys_path(v, provider, path)) != 0) {
        return errno == ENOENT ? 0 : err_set(e, ERR_IO, errno, "remove %s", path);
    }
    keys_note(v, provider, &none);
    *ret_removed = true;
    return 0;
}

int vault_remove_key(struct vault *v, const char *provider, bool *ret_removed, struct err *e)
{
    LOCK_GUARD(&v->keys_lock);
    return secret_remove(v, provider, ret_removed, e);
}
