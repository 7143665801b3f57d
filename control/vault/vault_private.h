/*
 * Inside of the vault; private to control/vault/.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "control/vault/vault.h"
#include "lib/json_read.h"

#define VAULT_AGENTS_MAX    16
#define VAULT_PROVIDERS_MAX 16
#define VAULT_LIST_MAX      64   /* paths of a provider, providers of an agent */
#define VAULT_KEY_BYTES_MAX 4096 /* a provider's key */
#define VAULT_GRANTS_MAX    4096
#define VAULT_CONNECTIONS   8
#define VAULT_REVOKED_MAX   256 /* waiting to be pushed */
#define VAULT_PURPOSE_KEY   "provider-key"
#define VAULT_PURPOSE_TOKEN "task-token"

struct vault_grant_row {
    struct vault_grant_row *next;
    uint8_t hash[CRYPTO_SHA256_BYTES]; /* of the token, which is not kept */
    struct ulid task;
    struct ulid sandbox;
    const struct vault_agent *agent; /* borrowed from the registry */
};

struct vault_connection {
    int fd; /* -1: free */
    bool greeted;
    struct buf in;
    struct buf out;
};

struct vault {
    const struct config *config;
    struct db *db;
    struct crypto_master master;
    uint8_t preview_seed[CRYPTO_KEY_BYTES];      /* signs passes; constant after the start */
    struct vault_agent agents[VAULT_AGENTS_MAX]; /* constant after the start */
    size_t agent_count;
    struct vault_provider providers[VAULT_PROVIDERS_MAX];
    size_t provider_count;

    pthread_mutex_t lock; /* the four below */
    bool has_key[VAULT_PROVIDERS_MAX];
    struct vault_grant_row *grants; /* owned list */
    size_t grant_count;
    struct ulid revoked[VAULT_REVOKED_MAX]; /* to be told to the proxy */
    size_t revoked_count;

    pthread_mutex_t keys_lock; /* one writer of agent-auth/ at a time */

    atomic_bool stopping;
    int wake_fd;
    int listen_fd;
    bool has_thread;
    pthread_t thread; /* broker; owns the connections */
    struct vault_connection connections[VAULT_CONNECTIONS];
};

/* master.c: reads or makes the master key; stores its id in the settings. */
int vault_load_master(struct vault *v, struct err *e) MUST_CHECK;
/* preview_key.c: makes it once; one that does not open stops the start. */
int vault_load_preview_key(struct vault *v, struct err *e) MUST_CHECK;
/* registry.c: presets/agents and presets/providers. */
int vault_load_registry(struct vault *v, struct err *e) MUST_CHECK;
void vault_free_registry(struct vault *v);
/* http or https, a host, an optional path; no user, query or fragment. Without slashes at its end
 * in ret. ERR_INVALID. */
int vault_check_base_url(struct str url, struct buf *ret, struct err *e) MUST_CHECK;
/* keys.c: notes which providers have a key; every box must open. */
int vault_load_keys(struct vault *v, struct err *e) MUST_CHECK;
/* The key in plain, for the broker only. ERR_NOT_FOUND. */
int vault_read_key(struct vault *v, const char *provider, struct buf *ret_key, struct err *e)
    MUST_CHECK;
/* broker.c */
int vault_broker_start(struct vault *v, struct err *e) MUST_CHECK;
void vault_broker_stop(struct vault *v);
void vault_broker_wake(struct vault *v);
/* grants.c: what that token is good for, through that sandbox's door. False: nothing. */
bool vault_find_grant(struct vault *v, struct str token, const struct ulid *sandbox,
                      struct ulid *ret_task, const struct vault_agent **ret_agent);
void vault_free_grants(struct vault *v);
