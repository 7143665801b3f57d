/*
 * Inside of the vault; private to control/vault/.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "control/vault/vault.h"
#include "lib/json_read.h"
#include "lib/record.h"

#define VAULT_AGENTS_MAX    16
#define VAULT_LIST_MAX      64   /* paths of a provider, providers of an agent */
#define VAULT_KEY_BYTES_MAX 4096 /* a provider's key */
#define VAULT_BOX_BYTES_MAX 32768
#define VAULT_GRANTS_MAX    4096
#define VAULT_CONNECTIONS   8
#define VAULT_REVOKED_MAX   256 /* waiting to be pushed */
#define VAULT_LOGINS_MAX    16
#define VAULT_PURPOSE_KEY   "provider-key"
#define VAULT_PURPOSE_TOKEN "task-token"

struct vault_spend;
struct vault_prices;
struct vault_renewal;

struct vault_grant_row {
    struct vault_grant_row *next;
    uint8_t hash[CRYPTO_SHA256_BYTES]; /* of the token, which is not kept */
    struct ulid task;
    struct ulid sandbox;
    const struct vault_agent *agent; /* borrowed from the registry */
};

struct vault_connection {
    int fd; /* -1: free */
    uint64_t serial;
    bool greeted;
    char boot_id[65]; /* of the proxy's life */
    struct buf in;
    struct buf out;
};

/* A question that waits for a login's renewal. */
struct vault_waiting {
    struct vault_waiting *next;
    uint64_t connection;
    int64_t until_ms;
    char *frame; /* owned, wiped: it holds a token */
    size_t len;
};

/* How a login at a provider goes. */
struct vault_oauth {
    const char *header;
    const char *prefix;
    const char *extra; /* "name: value" that goes upstream too; "" for none */
    const char *client_id;
    const char *authorize_url;
    const char *token_url;
    const char *redirect_uri;
    const char *scopes;
};

/* A secret in the clear; wiped by secret_done. */
struct vault_secret {
    enum vault_method method;
    struct buf key; /* API key, or a login's access token */
    struct buf refresh;
    char key_id[ULID_LEN + 1];
    char scopes[256];
    int64_t connected_at;
    int64_t expires_at;
    bool renewing; /* a renewal was asked for and its answer is not stored */
    bool reconnect;
    bool imported;
    char message[256];
};

struct vault_slot {
    const struct vault_provider *provider; /* NULL: free */
    struct vault_credential credential;
    int64_t doubted_ms; /* when a provider refused its token last, monotonic; 0: never */
};

/* A login that was begun: the browser is on its way. */
struct vault_login {
    char provider[33]; /* "": free */
    char state[64];
    char verifier[64]; /* wiped */
    int64_t until_ms;
};

struct vault {
    const struct config *config;
    struct db *db;
    struct crypto_master master;
    uint8_t preview_seed[CRYPTO_KEY_BYTES];      /* signs passes; constant after the start */
    struct vault_agent agents[VAULT_AGENTS_MAX]; /* constant after the start */
    size_t agent_count;

    pthread_mutex_t lock; /* down to changed */
    struct vault_slot slots[VAULT_PROVIDERS_MAX];
    struct vault_provider **retired; /* owned: what was published and is not any more */
    size_t retired_count;
    struct vault_grant_row *grants; /* owned list */
    size_t grant_count;
    struct ulid revoked[VAULT_REVOKED_MAX]; /* to be told to the proxy */
    size_t revoked_count;
    struct vault_login logins[VAULT_LOGINS_MAX];
    bool changed; /* some key: to be told to the proxy */

    pthread_mutex_t keys_lock; /* one writer of agent-auth/ and of providers at a time; first */

    struct vault_prices *prices;
    struct vault_spend *spend;
    struct vault_renewal *renewal;
    void (*refused)(void *ctx, const struct ulid *task);
    void *refused_ctx;

    pthread_mutex_t config_lock; /* one who changes what owners give their apps at a time */
    atomic_uint_fast64_t config_changes;

    atomic_bool stopping;
    int wake_fd;
    int listen_fd;
    bool has_thread;
    pthread_t thread; /* broker; owns what follows */
    struct vault_connection connections[VAULT_CONNECTIONS];
    uint64_t next_serial;
    struct vault_waiting *waiting;
};

/* master.c: reads or makes the master key; stores its id in the settings. */
int vault_load_master(struct vault *v, struct err *e) MUST_CHECK;
/* preview_key.c: makes it once; one that does not open stops the start. */
int vault_load_preview_key(struct vault *v, struct err *e) MUST_CHECK;
/* registry.c: presets/agents and presets/providers. */
int vault_load_registry(struct vault *v, struct err *e) MUST_CHECK;
void vault_free_registry(struct vault *v);
typedef int (*registry_read)(struct vault *v, const struct json_value *json, struct err *e);
/* Reads every data file of a folder of presets. */
int registry_folder(struct vault *v, const char *name, registry_read read, struct err *e)
    MUST_CHECK;
/* registry_agents.c: one agent's file. */
int registry_agent(struct vault *v, const struct json_value *json, struct err *e) MUST_CHECK;
void registry_agent_done(struct vault_agent *a);
bool registry_is_id(struct str id);
/* Owned copies. */
char *registry_text(const struct json_value *v, const char *key); /* NULL for none */
char *registry_text_or(const struct json_value *v, const char *key, const char *fallback);
const char *const *registry_list(const struct json_value *v, const char *key);
void registry_free_list(const char *const *list);
void registry_free_text(const char *text);
/* http or https, a host, an optional path; no user, query or fragment. Without slashes at its end
 * in ret. ERR_INVALID. */
int vault_check_base_url(struct str url, struct buf *ret, struct err *e) MUST_CHECK;
/* providers.c: the owner's own, from the store. */
int vault_load_own_providers(struct vault *v, struct err *e) MUST_CHECK;
void registry_provider_free(struct vault_provider *p);
/* Index of a slot, -1 for none. The lock is held. */
int vault_slot_of(const struct vault *v, const char *provider);
/* Puts a provider into a free slot or in place of the one of its id. ERR_LIMIT. */
int vault_publish(struct vault *v, struct vault_provider *take_p, struct err *e) MUST_CHECK;

/* keys.c: notes which providers have a key; every box must open. */
int vault_load_keys(struct vault *v, struct err *e) MUST_CHECK;
/* In the clear, for the broker, a check or a renewal only. ERR_NOT_FOUND. */
int secret_read(struct vault *v, const char *provider, struct vault_secret *ret, struct err *e)
    MUST_CHECK;
/* Seals and stores, then notes it and tells the proxy. With keys_lock held. ERR_NOT_FOUND: no such
 * provider, ERR_IO, ERR_LIMIT. */
int secret_write(struct vault *v, const char *provider, const struct vault_secret *secret,
                 struct err *e) MUST_CHECK;
/* The same as vault_remove_key, with keys_lock held. */
int secret_remove(struct vault *v, const char *provider, bool *ret_removed, struct err *e)
    MUST_CHECK;
void secret_init(struct vault_secret *s);
void secret_done(struct vault_secret *s);
/* May that become the value of a header: visible ASCII? */
bool secret_is_plain(struct str key);
/* The same with a sentence for people. ERR_INVALID. */
int secret_check_key(struct str key, struct err *e) MUST_CHECK;

/* check.c: a provider's own words of a refusal, for people; without the secret, should it quote
 * one. */
struct outgoing_answer;
void check_words(const struct outgoing_answer *answer, struct str secret, char *out, size_t size);
/* login.c: asks the token endpoint; fills key, refresh, expires_at and scopes. A refresh token that
 * it does not name stays. ERR_FORBIDDEN: refused, with its words; everything else may pass. */
int login_ask(const struct vault_oauth *o, struct str body, struct str secret_part,
              struct vault_secret *ret, struct err *e) MUST_CHECK;
/* The part of it that reads what came back: hostile bytes. ERR_PROTOCOL. */
int login_take(struct str body, struct vault_secret *ret, struct err *e) MUST_CHECK;
/* renewal.c: one thread renews logins, each at most once at a time. */
void renewal_start(struct vault *v);
void renewal_stop(struct vault *v);
/* Looks now: a login was stored, or is needed. */
void renewal_wake(struct vault *v);
/* The provider refused a login's token before its time: it is renewed, seldom. */
void renewal_doubt(struct vault *v, const char *provider);
/* Is a renewal wanted before that login's token is used? */
bool renewal_is_due(const struct vault_credential *c);

/* broker.c */
/* What vault_serve and whoever wakes the broker before it need. ERR_IO. */
int vault_broker_prepare(struct vault *v, struct err *e) MUST_CHECK;
void vault_broker_stop(struct vault *v);
void vault_broker_wake(struct vault *v);
/* broker_grant.c, broker_spend.c: the broker's thread; -1: drop the connection. */
int broker_grant(struct vault *v, struct vault_connection *c, const struct record *r,
                 struct str frame);
/* Answers what waited long enough, or for what is there now. */
void broker_grant_waiting(struct vault *v);
int broker_grant_wait_ms(const struct vault *v);
void broker_grant_forget(struct vault *v, uint64_t connection);
int broker_admit(struct vault *v, struct vault_connection *c, const struct record *r);
int broker_usage(struct vault *v, struct vault_connection *c, const struct record *r);
void broker_tell_noted(struct vault *v);
struct vault_connection *broker_find(struct vault *v, uint64_t serial);
void broker_drop(struct vault *v, struct vault_connection *c);

/* grants.c: what that token is good for, through that sandbox's door. False: nothing. */
bool vault_find_grant(struct vault *v, struct str token, const struct ulid *sandbox,
                      struct ulid *ret_task, const struct vault_agent **ret_agent);
void vault_free_grants(struct vault *v);
