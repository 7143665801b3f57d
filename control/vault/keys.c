/*
 * Keys of providers: sealed boxes in agent-auth/. Opened only for the broker. Any thread; blocks
 * for a file's time.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "control/vault/vault_private.h"
#include "lib/fd.h"
#include "lib/mem.h"
#include "lib/paths.h"
#include "lib/thread.h"

#define KEYS_BOX_BYTES_MAX 16384

static char *keys_path(const struct vault *v, const char *provider, char out[PATHS_MAX])
{
    char rest[96];
    (void)snprintf(rest, sizeof(rest), "agent-auth/%s.box", provider);
    return paths_join(out, v->config->data_dir, rest);
}

/* Index of a provider; -1 for an unknown one. */
static int keys_index(const struct vault *v, const char *provider)
{
    for (size_t i = 0; i < v->provider_count; i++) {
        if (strcmp(v->providers[i].id, provider) == 0) {
            return (int)i;
        }
    }
    return -1;
}

int vault_read_key(struct vault *v, const char *provider, struct buf *ret_key, struct err *e)
{
    char path[PATHS_MAX];
    char *box AUTOFREE = NULL;
    size_t len = 0;
    if (fd_read_file(keys_path(v, provider, path), KEYS_BOX_BYTES_MAX, &box, &len, e) != 0) {
        return -1;
    }
    return crypto_open(&v->master, VAULT_PURPOSE_KEY, provider, str_trim(str_n(box, len)), ret_key,
                       e);
}

int vault_load_keys(struct vault *v, struct err *e)
{
    for (size_t i = 0; i < v->provider_count; i++) {
        BUF_AUTO(key, KEYS_BOX_BYTES_MAX);
        struct err why;
        int rc = vault_read_key(v, v->providers[i].id, &key, &why);
        mem_wipe(key.ptr, key.len);
        v->has_key[i] = rc == 0;
        if (rc != 0 && why.code != ERR_NOT_FOUND) {
            return err_set(e, ERR_INVALID, 0,
                           "agent-auth/%s.box does not open (%s): put the right secrets.key or "
                           "SANDBOXD_SECRETS_KEY back, or remove that file and connect again",
                           v->providers[i].id, why.msg);
        }
    }
    return 0;
}

bool vault_has_key(struct vault *v, const char *provider)
{
    int index = keys_index(v, provider);
    LOCK_GUARD(&v->lock);
    return index >= 0 && v->has_key[index];
}

static void keys_note(struct vault *v, int index, bool has)
{
    LOCK_GUARD(&v->lock);
    v->has_key[index] = has;
}

/* A key becomes the value of a header: visible ASCII only. */
static bool keys_is_plain(struct str key)
{
    for (size_t i = 0; i < key.len; i++) {
        if (key.ptr[i] <= ' ' || key.ptr[i] >= 0x7f) {
            return false;
        }
    }
    return key.len > 0 && key.len <= VAULT_KEY_BYTES_MAX;
}

int vault_set_key(struct vault *v, const char *provider, struct str key, struct err *e)
{
    BUF_AUTO(box, KEYS_BOX_BYTES_MAX);
    char path[PATHS_MAX];
    int index = keys_index(v, provider);
    if (index < 0) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no provider %.64s", provider);
    }
    if (!keys_is_plain(key)) {
        return err_set(e, ERR_INVALID, 0,
                       "an API key has 1 to %d visible ASCII characters without blanks",
                       VAULT_KEY_BYTES_MAX);
    }
    crypto_seal(&v->master, VAULT_PURPOSE_KEY, provider, key, &box);
    buf_putc(&box, '\n');
    LOCK_GUARD(&v->keys_lock);
    if (fd_write_file(keys_path(v, provider, path), buf_str(&box), 0600, e) != 0) {
        return -1;
    }
    keys_note(v, index, true);
    return 0;
}

int vault_remove_key(struct vault *v, const char *provider, bool *ret_removed, struct err *e)
{
    char path[PATHS_MAX];
    int index = keys_index(v, provider);
    *ret_removed = false;
    if (index < 0) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no provider %.64s", provider);
    }
    LOCK_GUARD(&v->keys_lock);
    if (unlink(keys_path(v, provider, path)) != 0) {
        return errno == ENOENT ? 0 : err_set(e, ERR_IO, errno, "remove %s", path);
    }
    keys_note(v, index, false);
    *ret_removed = true;
    return 0;
}
