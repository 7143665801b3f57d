/*
 * Task tokens and what they are good for. Only hashes are kept in memory; the token itself lives
 * sealed in the task's row and in its container. Any thread.
 */
#include "control/vault/spend.h"
#include "control/vault/vault_private.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define GRANT_TOKEN_PREFIX    "sbt_"
#define GRANT_TOKEN_BYTES     32
#define GRANT_TOKEN_BYTES_MAX 128

static void grants_remove(struct vault *v, const struct ulid *task)
{
    for (struct vault_grant_row **at = &v->grants; *at;) {
        struct vault_grant_row *row = *at;
        if (ulid_eq(&row->task, task)) {
            *at = row->next;
            v->grant_count--;
            free(row);
        } else {
            at = &row->next;
        }
    }
}

static int grants_add(struct vault *v, const struct ulid *task, const struct ulid *sandbox,
                      const struct vault_agent *agent, struct str token, struct err *e)
{
    LOCK_GUARD(&v->lock);
    grants_remove(v, task);
    if (v->grant_count == VAULT_GRANTS_MAX) {
        return err_set(e, ERR_LIMIT, 0, "%d tasks have a token already", VAULT_GRANTS_MAX);
    }
    struct vault_grant_row *row = mem_alloc(sizeof(*row));
    *row = (struct vault_grant_row){
        .next = v->grants, .task = *task, .sandbox = *sandbox, .agent = agent};
    crypto_sha256(token, row->hash);
    v->grants = row;
    v->grant_count++;
    return 0;
}

/* Spend is judged from the first moment on in which the token is good. */
static int grants_take(struct vault *v, const struct ulid *task, const struct ulid *sandbox,
                       const struct vault_agent *agent, struct str token, struct err *e)
{
    return spend_task_add(v, task, agent, e) != 0 ? -1
                                                  : grants_add(v, task, sandbox, agent, token, e);
}

int vault_grant(struct vault *v, const struct ulid *task, const struct ulid *sandbox,
                const struct vault_agent *agent, struct buf *ret_token, struct buf *ret_box,
                struct err *e)
{
    crypto_token(ret_token, GRANT_TOKEN_PREFIX, GRANT_TOKEN_BYTES);
    crypto_seal(&v->master, VAULT_PURPOSE_TOKEN, task->text, buf_str(ret_token), ret_box);
    if (!buf_ok(ret_token) || !buf_ok(ret_box)) {
        return err_set(e, ERR_INTERNAL, 0, "a token's buffer is too small");
    }
    return grants_take(v, task, sandbox, agent, buf_str(ret_token), e);
}

int vault_restore(struct vault *v, const struct ulid *task, const struct ulid *sandbox,
                  const struct vault_agent *agent, struct str box, struct buf *ret_token,
                  struct err *e)
{
    if (crypto_open(&v->master, VAULT_PURPOSE_TOKEN, task->text, box, ret_token, e) != 0) {
        return err_wrap(e, "the token of task %s", task->text);
    }
    return grants_take(v, task, sandbox, agent, buf_str(ret_token), e);
}

void vault_revoke(struct vault *v, const struct ulid *task)
{
    spend_task_end(v, task);
    {
        LOCK_GUARD(&v->lock);
        grants_remove(v, task);
        /* A proxy that reads nothing loses the oldest words; the grant is gone all the same. */
        if (v->revoked_count == VAULT_REVOKED_MAX) {
            v->revoked_count--;
            memmove(v->revoked, v->revoked + 1, v->revoked_count * sizeof(v->revoked[0]));
        }
        v->revoked[v->revoked_count++] = *task;
    }
    vault_broker_wake(v);
}

bool vault_find_grant(struct vault *v, struct str token, const struct ulid *sandbox,
                      struct ulid *ret_task, const struct vault_agent **ret_agent)
{
    uint8_t hash[CRYPTO_SHA256_BYTES];
    if (token.len == 0 || token.len > GRANT_TOKEN_BYTES_MAX) {
        return false;
    }
    crypto_sha256(token, hash);
    LOCK_GUARD(&v->lock);
    for (const struct vault_grant_row *row = v->grants; row; row = row->next) {
        if (str_eq_secret(str_n(row->hash, sizeof(row->hash)), str_n(hash, sizeof(hash))) &&
            ulid_eq(&row->sandbox, sandbox)) {
            *ret_task = row->task;
            *ret_agent = row->agent;
            return true;
        }
    }
    return false;
}

void vault_free_grants(struct vault *v)
{
    while (v->grants) {
        struct vault_grant_row *row = v->grants;
        v->grants = row->next;
        free(row);
    }
}
