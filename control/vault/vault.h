/*
 * Vault: the master key, providers and their keys, task tokens and grants, spend and budgets.
 *
 * Nothing secret leaves it but to the credentials proxy's broker socket; never into logs, events or
 * answers. Any thread.
 */
#pragma once

#include "control/config.h"
#include "control/store/budgets.h"
#include "lib/arena.h"
#include "lib/buf.h"
#include "lib/crypto.h"
#include "lib/err.h"
#include "lib/pass.h"
#include "lib/ulid.h"

struct db;
struct vault;

/* Reads or makes the master key (SANDBOXD_SECRETS_KEY, else secrets.key; never anew over existing
 * boxes: agent-auth/, sealed task tokens), loads presets/agents, presets/providers and
 * presets/prices, starts the threads that store spend and renew logins. ERR_INVALID names setting
 * and fix. */
int vault_start(const struct config *config, struct db *db, struct vault **ret, struct err *e)
    MUST_CHECK;
/* Listens for the credentials proxy from now on. Not before the tokens of the tasks that run are
 * restored: a token that is not known is one that ended, and its requests are cut. ERR_IO. */
int vault_serve(struct vault *v, struct err *e) MUST_CHECK;
void vault_stop(struct vault *take_vault);
const struct crypto_master *vault_master(const struct vault *v);

/* ---- providers and agents ---- */

#define VAULT_DIALECTS 2

enum vault_dialect {
    VAULT_ANTHROPIC, /* Messages */
    VAULT_OPENAI,    /* Chat Completions, Responses */
};

const char *vault_dialect_name(enum vault_dialect dialect);

struct vault_oauth;

/* Constant once it is published; valid until vault_stop. */
struct vault_provider {
    const char *id;
    const char *label;
    const char *base_url;      /* the setting's, else the file's; "" for a kind */
    const char *header;        /* "authorization", "x-api-key" */
    const char *prefix;        /* "Bearer " or "" */
    const char *const *paths;  /* "METHOD /pattern", ended by NULL */
    const char *const *usages; /* how spend is read, beside each path; "" for none */
    const char *const *costs;  /* which member of its answers names the cost in USD; "" for none */
    const char *check;         /* "GET /models": answers whether a key is good; "" for none */
    const char *dialects[VAULT_DIALECTS]; /* its path below base_url, NULL: not spoken */
    enum vault_dialect preferred;
    const char *default_model;       /* of the owner's own providers; "" for none */
    const char *kind;                /* of which kind an own one is; "" for those of the files */
    bool is_kind;                    /* a pattern for own ones, no provider */
    bool keyless;                    /* goes without a key */
    const struct vault_oauth *oauth; /* NULL: no login */
};

struct vault_agent {
    const char *id; /* "opencode", "claude-code" */
    const char *label;
    const char *version;
    const char *native_provider;  /* where its api-key goes */
    const char *const *providers; /* those it may use, ended by NULL; own ones it speaks with too */
    const char *const *names;     /* its own names of these, beside them */
    const char *const *models;    /* default model of each, beside them; "" for none */
    const char *default_model;    /* of its native provider; "" for none */
    bool dialects[VAULT_DIALECTS];
    const char
        *base_url_env; /* variable that points it at a base URL; "": its configuration does */
    const char *base_url_strip; /* what it puts behind that URL itself */
    const char *key_env;
    bool keyless; /* may run without a key on its native provider */
};

const struct vault_agent *vault_agents(const struct vault *v, size_t *ret_count);
const struct vault_agent *vault_agent_find(const struct vault *v, struct str id);
/* NULL for none of that id; a kind is none. */
const struct vault_provider *vault_provider_find(const struct vault *v, struct str id);

#define VAULT_PROVIDERS_MAX 64

/* All of them, kinds included; at most VAULT_PROVIDERS_MAX. */
size_t vault_provider_list(const struct vault *v,
                           const struct vault_provider *ret[VAULT_PROVIDERS_MAX]);
/* Ids of the providers an agent may use: its file's, then the owner's own that it can speak with;
 * ended by NULL. */
void vault_agent_providers(const struct vault *v, const struct vault_agent *agent,
                           const char *ret[VAULT_PROVIDERS_MAX + 1]);
/* The agent's default model at that provider, "" for none. */
const char *vault_agent_model(const struct vault *v, const struct vault_agent *agent,
                              const char *provider);
/* The agent's own name of that provider; "" when its catalogue does not have it. */
const char *vault_agent_name(const struct vault_agent *agent, const char *provider);
/* In which of the dialects both speak, the provider's favourite first. False: in none. */
bool vault_agent_dialect(const struct vault_agent *agent, const struct vault_provider *p,
                         enum vault_dialect *ret);

struct vault_own_provider {
    const char *id;
    const char *kind; /* id of a kind */
    const char *label;
    const char *base_url;
    const char *default_model;
    bool keyless;
};

/* Adds or changes a provider of the owner's own. ERR_INVALID, ERR_CONFLICT (the id is a file's),
 * ERR_LIMIT. */
int vault_provider_set(struct vault *v, const struct vault_own_provider *own, struct err *e)
    MUST_CHECK;
/* Removes it with its key. ERR_NOT_FOUND, ERR_CONFLICT. */
int vault_provider_remove(struct vault *v, const char *id, struct err *e) MUST_CHECK;

/* ---- keys and logins ---- */

enum vault_method {
    VAULT_NO_KEY,
    VAULT_API_KEY,
    VAULT_LOGIN
};

/* What may be told of a stored key: never itself. */
struct vault_credential {
    enum vault_method method;
    bool reconnect;    /* the login was refused: only a new one helps */
    bool imported;     /* a CLI elsewhere holds the same login */
    char message[256]; /* why, in the provider's words; or why a renewal fails for now */
    char key_id[ULID_LEN + 1];
    int64_t connected_at;
    int64_t expires_at; /* of a login's token, 0: unknown */
};

struct vault_credential vault_credential_get(struct vault *v, const char *provider);
/* Can it be used: a key, or a login that was not refused, or none is needed. */
bool vault_has_key(struct vault *v, const char *provider);
/* Names the stored key in what was spent with it; "" without one. */
void vault_key_id(struct vault *v, const char *provider, char ret[ULID_LEN + 1]);
/* Seals and stores; replaces. ERR_IO. */
int vault_set_key(struct vault *v, const char *provider, struct str key, struct err *e) MUST_CHECK;
/* Wipes key or login. *ret_removed: there was one. */
int vault_remove_key(struct vault *v, const char *provider, bool *ret_removed, struct err *e)
    MUST_CHECK;
/* Asks the provider whether it takes that key (empty: the stored one). ERR_FORBIDDEN with its own
 * words, ERR_UNAVAILABLE, ERR_TIMEOUT. Blocks for up to 20 s. */
int vault_check_key(struct vault *v, const char *provider, struct str key, struct err *e)
    MUST_CHECK;
/* Takes over what a CLI stored of its own login. *ret_providers: ids, comma separated. ERR_INVALID.
 */
int vault_import(struct vault *v, const struct vault_agent *agent, struct str text,
                 struct buf *ret_providers, struct err *e) MUST_CHECK;
#define VAULT_LOGIN_S 900 /* a begun login is good for so long */
/* Where the owner's browser goes for a login. ERR_INVALID: that provider has none. */
int vault_login_start(struct vault *v, const char *provider, struct buf *ret_url, struct err *e)
    MUST_CHECK;
/* What the provider showed at the end of it, "code#state". ERR_INVALID: no such login waits, or it
 * was used, or is too old; ERR_FORBIDDEN with the provider's words. Blocks for up to 30 s. */
int vault_login_finish(struct vault *v, const char *provider, struct str code, struct err *e)
    MUST_CHECK;

/* ---- task tokens ---- */

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
/* Called (by the broker's thread) when a task was refused for good; before vault's first grant. */
void vault_on_refusal(struct vault *v, void (*refused)(void *ctx, const struct ulid *task),
                      void *ctx);

/* ---- budgets and prices ---- */

struct vault_budget {
    enum budget_scope scope;
    struct ulid app;        /* of BUDGET_APP */
    int64_t limit_microusd; /* -1: none; so is the next */
    int64_t limit_tokens;
    bool allow_unknown_price;
    /* told, not set */
    int64_t used_microusd;
    int64_t used_tokens;
    int64_t held_microusd; /* for requests that run */
    int64_t held_tokens;
    int64_t since_at; /* counting began, 0: always */
    bool is_high;     /* 80 % are spent */
    bool is_reached;
};

/* reset: counting begins anew. ERR_LIMIT, ERR_IO. */
int vault_budget_set(struct vault *v, const struct vault_budget *budget, bool reset, struct err *e)
    MUST_CHECK;
int vault_budget_remove(struct vault *v, enum budget_scope scope, const struct ulid *app,
                        struct err *e) MUST_CHECK;
size_t vault_budget_list(struct vault *v, struct arena *a, struct vault_budget **ret);
/* app may be NULL but for BUDGET_APP. False: none is set. */
bool vault_budget_get(struct vault *v, enum budget_scope scope, const struct ulid *app,
                      struct vault_budget *ret);

struct vault_price {
    struct price_row row;
    bool own;
};

/* Of one provider, or of all (""). Lives in the arena. */
size_t vault_price_list(struct vault *v, const char *provider, struct arena *a,
                        struct vault_price **ret);
/* model "*": every model of that provider that has no price otherwise. ERR_INVALID, ERR_NOT_FOUND,
 * ERR_LIMIT. */
int vault_price_set(struct vault *v, const struct price_row *row, struct err *e) MUST_CHECK;
int vault_price_remove(struct vault *v, const char *provider, const char *model, struct err *e)
    MUST_CHECK;

/* Passes to previews: the key that verifies them, and the text of a signed one. */
void vault_preview_public(const struct vault *v, uint8_t ret_public[CRYPTO_KEY_BYTES]);
void vault_sign_pass(const struct vault *v, const struct pass *pass, struct buf *out);
