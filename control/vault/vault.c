/*
 * Vault: start and stop. The main thread.
 */
#include "control/vault/vault.h"

#include "control/vault/prices.h"
#include "control/vault/spend.h"
#include "control/vault/vault_private.h"
#include "lib/fd.h"
#include "lib/mem.h"

static void vault_free(struct vault *v)
{
    fd_close_cleanup(&v->wake_fd);
    vault_free_grants(v);
    prices_free(v);
    vault_free_registry(v);
    mem_wipe(v->logins, sizeof(v->logins));
    mem_wipe(&v->master, sizeof(v->master));
    mem_wipe(v->preview_seed, sizeof(v->preview_seed));
    (void)pthread_mutex_destroy(&v->lock);
    (void)pthread_mutex_destroy(&v->keys_lock);
    (void)pthread_mutex_destroy(&v->config_lock);
    free(v);
}

int vault_start(const struct config *config, struct db *db, struct vault **ret, struct err *e)
{
    struct vault *v = mem_alloc(sizeof(*v));
    v->config = config;
    v->db = db;
    v->wake_fd = -1;
    v->listen_fd = -1;
    (void)pthread_mutex_init(&v->lock, NULL);
    (void)pthread_mutex_init(&v->keys_lock, NULL);
    (void)pthread_mutex_init(&v->config_lock, NULL);
    if (vault_load_registry(v, e) != 0 || prices_load(v, e) != 0 || vault_load_master(v, e) != 0 ||
        vault_load_preview_key(v, e) != 0 || vault_load_keys(v, e) != 0 || spend_start(v, e) != 0 ||
        vault_broker_prepare(v, e) != 0) {
        spend_stop(v);
        vault_free(v);
        return -1;
    }
    renewal_start(v);
    *ret = v;
    return 0;
}

void vault_stop(struct vault *take_vault)
{
    if (take_vault) {
        renewal_stop(take_vault);
        vault_broker_stop(take_vault);
        spend_stop(take_vault);
        vault_free(take_vault);
    }
}

const struct crypto_master *vault_master(const struct vault *v)
{
    return &v->master;
}

void vault_on_refusal(struct vault *v, void (*refused)(void *ctx, const struct ulid *task),
                      void *ctx)
{
    v->refused_ctx = ctx;
    v->refused = refused;
}
