/*
 * Logins that a CLI made elsewhere: its own file, pasted. Hostile text. Worker threads.
 */
#include <stdio.h>

#include "control/vault/vault_private.h"
#include "lib/clock.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define IMPORT_SCOPES_MAX 16

/* A file is gone through twice: what cannot be used must not be found out when half is stored. */
struct import_run {
    struct vault *vault;
    bool stores;
    struct buf *told; /* providers that were connected, with commas */
};

static void import_tell(const struct import_run *run, const char *provider)
{
    buf_printf(run->told, "%s%s", run->told->len > 0 ? "," : "", provider);
}

static int import_write(const struct import_run *run, const char *provider,
                        struct vault_secret *secret, struct err *e)
{
    struct vault *v = run->vault;
    struct ulid id = ulid_new();
    memcpy(secret->key_id, id.text, sizeof(secret->key_id));
    secret->connected_at = clock_unix_ms();
    LOCK_GUARD(&v->keys_lock);
    if (secret_write(v, provider, secret, e) != 0) {
        return -1;
    }
    import_tell(run, provider);
    return 0;
}

static int import_login(const struct import_run *run, const char *provider, struct str access,
                        struct str refresh, int64_t expires_at, struct err *e)
{
    struct vault_secret secret;
    const struct vault_provider *p = vault_provider_find(run->vault, str_of(provider));
    if (!p || !p->oauth || !secret_is_plain(access) ||
        (refresh.ptr && refresh.len > 0 && !secret_is_plain(refresh))) {
        return err_set(e, ERR_INVALID, 0, "credentials: the login of %s in it cannot be used",
                       provider);
    }
    if (!run->stores) {
        return 0;
    }
    secret_init(&secret);
    secret.method = VAULT_LOGIN;
    secret.imported = true;
    secret.expires_at = expires_at > 0 ? expires_at : 0;
    buf_add_str(&secret.key, access);
    buf_add_str(&secret.refresh, refresh);
    int rc = import_write(run, provider, &secret, e);
    secret_done(&secret);
    return rc;
}

static int import_key(const struct import_run *run, const char *provider, struct str key,
                      struct err *e)
{
    if (!run->stores) {
        return secret_check_key(key, e) == 0 ? 0 : err_wrap(e, "credentials: %s", provider);
    }
    if (vault_set_key(run->vault, provider, key, e) != 0) {
        return -1;
    }
    import_tell(run, provider);
    return 0;
}

/* Claude Code: .claude/.credentials.json */
static int import_claude(const struct import_run *run, const struct json_value *login,
                         struct err *e)
{
    int64_t expires_at = 0;
    (void)json_get_int(login, "expiresAt", &expires_at);
    return import_login(run, "anthropic", json_get_str(login, "accessToken"),
                        json_get_str(login, "refreshToken"), expires_at, e);
}

static const char *import_provider(const struct vault_agent *agent, struct str name)
{
    for (size_t i = 0; agent->providers[i]; i++) {
        if (agent->names[i][0] && str_is(name, agent->names[i])) {
            return agent->providers[i];
        }
    }
    return NULL;
}

static int import_opencode_entry(const struct import_run *run, const char *provider,
                                 const struct json_value *entry, struct err *e)
{
    int64_t expires_at = 0;
    if (str_is(json_get_str(entry, "type"), "api")) {
        return import_key(run, provider, json_get_str(entry, "key"), e);
    }
    (void)json_get_int(entry, "expires", &expires_at);
    return import_login(run, provider, json_get_str(entry, "access"),
                        json_get_str(entry, "refresh"), expires_at, e);
}

/* OpenCode: .local/share/opencode/auth.json, a member for each of its providers. */
static int import_opencode(const struct import_run *run, const struct vault_agent *agent,
                           const struct json_value *root, struct err *e)
{
    size_t pos = 0;
    struct str name;
    const struct json_value *entry = NULL;
    while (json_each(root, &pos, &name, &entry)) {
        const char *provider = import_provider(agent, name);
        if (provider && import_opencode_entry(run, provider, entry, e) != 0) {
            return -1;
        }
    }
    return 0;
}

static int import_all(const struct import_run *run, const struct vault_agent *agent,
                      const struct json_value *root, struct err *e)
{
    const struct json_value *claude = json_get(root, "claudeAiOauth");
    return claude ? import_claude(run, claude, e) : import_opencode(run, agent, root, e);
}

int vault_import(struct vault *v, const struct vault_agent *agent, struct str text,
                 struct buf *ret_providers, struct err *e)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    struct err why;
    /* The parser's words would quote what must not be quoted. */
    if (json_parse(text, &doc, &why) != 0 || !json_is_object(json_root(doc))) {
        return err_set(e, ERR_INVALID, 0, "credentials: the file's text is wanted, a JSON object");
    }
    struct import_run run = {.vault = v, .told = ret_providers};
    int rc = import_all(&run, agent, json_root(doc), e);
    run.stores = true;
    rc = rc == 0 ? import_all(&run, agent, json_root(doc), e) : rc;
    if (rc == 0 && ret_providers->len == 0) {
        return err_set(e, ERR_INVALID, 0, "credentials: it holds no login that %s could use here",
                       agent->label);
    }
    if (rc == 0) {
        renewal_wake(v);
    }
    return rc;
}
