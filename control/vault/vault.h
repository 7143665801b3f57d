/*
 * Vault: the master key, providers and their keys, task tokens and grants.
 *
 * Nothing secret leaves it but to the credentials proxy's broker socket; never into logs, events or
 * answers. Any thread.
 */
#pragma once

#include "control/config.h"
#include "lib/arena.h"
#include "lib/buf.h"
#include "lib/crypto.h"
#include "lib/err.h"
#include "lib/pass.h"
#include "lib/ulid.h"

struct db;
struct vault;

/* Reads or makes the master key (SANDBOXD_SECRETS_KEY, else secrets.key; never anew over existing
 * boxes: agent-auth/, sealed task tokens), loads presets/agents and presets/providers, starts the
 * broker thread. ERR_INVALID names setting and fix. */
int vault_start(const struct config *config, struct db *db, struct vault **ret, struct err *e)
    MUST_CHECK;
void vault_stop(struct vault *take_vault);
const struct crypto_master *vault_master(const struct vault *v);

struct vault_provider {
    const char *id;
    const char *base_url;     /* the setting's, else the file's */
    const char *header;       /* "authorization", "x-api-key" */
    const char *prefix;       /* "Bearer " or "" */
    const char *const *paths; /* "METHOD /pattern", ended by NULL */
};

struct vault_agent {
    const char *id; /* "opencode", "claude-code" */
    const char *label;
    const char *native_provider;  /* where its api-key goes */
    const char *const *providers; /* those it may use, ended by NULL */
    const char *default_model;    /* "" for none */
    bool keyless;                 /* may run without a key on its native provider */
};

const struct vault_agent *vault_agents(const struct vault *v, size_t *ret_count);
const struct vault_agent *vault_agent_find(const struct vault *v, struct str id);
const struct vault_provider *vault_provider_find(const struct vault *v, struct str id);

bool vault_has_key(struct vault *v, const char *provider);
/* Seals and stores; replaces. ERR_IO. */
int vault_set_key(struct vault *v, const char *provider, struct str key, struct err *e) MUST_CHECK;
/* Wipes. *ret_removed: there was one. */
int vault_remove_key(struct vault *v, const char *provider, bool *ret_removed, struct err *e)
    MUST_CHECK;

/* Mints a token for a task that starts: valid through that sandbox's door, for that agent's
 * providers (keyless: its native provider without a header), until vault_revoke. The sealed form
 * goes into the task's row. */
int vault_grant(struct vault *v, const struct ulid *task, const struct ulid *sandbox,
                const struct vault_agent *agent, struct buf *ret_token, struct buf *ret_box,
                struct err *e) MUST_CHECK;
/* Makes the grant of a running task valid again after a restart of ours, and gives its token back.
 * ERR_INVALID, ERR_FORBIDDEN: the box is not ours. */
int vault_restore(struct vault *v, const struct ulid *task, const struct ulid *sandbox,
                  const struct vault_agent *agent, struct str box, struct buf *ret_token,
                  struct err *e) MUST_CHECK;
/* Ends it and tells the proxy. Unknown tasks are fine. */
void vault_revoke(struct vault *v, const struct ulid *task);

/* Passes to previews: the key that verifies them, and the text of a signed one. */
void vault_preview_public(const struct vault *v, uint8_t ret_public[CRYPTO_KEY_BYTES]);
void vault_sign_pass(const struct vault *v, const struct pass *pass, struct buf *out);
