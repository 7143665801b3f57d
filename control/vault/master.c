/*
 * The master key: SANDBOXD_SECRETS_KEY, else secrets.key in the data directory, made once. It must
 * never be made anew over anything that was sealed with another. The main thread at start.
 */
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#include "control/store/settings.h"
#include "control/vault/vault_private.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/paths.h"

#define MASTER_FILE_BYTES_MAX 1024
#define MASTER_SETTING        "secrets_key_id"
#define MASTER_WANTED         "base64 of 32 bytes (openssl rand -base64 32)"

static int master_decode(struct str text, uint8_t ret_key[CRYPTO_KEY_BYTES])
{
    BUF_AUTO(bytes, 256);
    struct err ignored;
    int rc = -1;
    if (crypto_unbase64(str_trim(text), false, &bytes, &ignored) == 0 &&
        bytes.len == CRYPTO_KEY_BYTES) {
        memcpy(ret_key, bytes.ptr, CRYPTO_KEY_BYTES);
        rc = 0;
    }
    mem_wipe(bytes.ptr, bytes.len);
    return rc;
}

/* Is anything sealed in agent-auth/? */
static bool master_boxes_exist(const struct vault *v)
{
    char path[PATHS_MAX];
    DIR *dir = opendir(paths_join(path, v->config->data_dir, "agent-auth"));
    struct dirent *entry = NULL;
    bool found = false;
    while (dir && !found && (entry = readdir(dir)) != NULL) {
        found = str_ends(str_of(entry->d_name), STR(".box"));
    }
    if (dir) {
        (void)closedir(dir);
    }
    return found;
}

static int master_make(const char *path, uint8_t ret_key[CRYPTO_KEY_BYTES], struct err *e)
{
    BUF_AUTO(text, 128);
    crypto_random(ret_key, CRYPTO_KEY_BYTES);
    crypto_base64(str_n(ret_key, CRYPTO_KEY_BYTES), false, &text);
    buf_putc(&text, '\n');
    int rc = fd_write_file(path, buf_str(&text), 0600, e);
    mem_wipe(text.ptr, text.len);
    if (rc == 0) {
        log_info("a new key for stored secrets was made; back it up with the data", "path", path);
    }
    return rc;
}

static int master_from_file(struct vault *v, bool used_before, uint8_t ret_key[CRYPTO_KEY_BYTES],
                            struct err *e)
{
    char path[PATHS_MAX];
    char *text AUTOFREE = NULL;
    size_t len = 0;
    struct err why;
    (void)paths_join(path, v->config->data_dir, "secrets.key");
    if (fd_read_file(path, MASTER_FILE_BYTES_MAX, &text, &len, &why) != 0) {
        if (why.code != ERR_NOT_FOUND) {
            return err_set(e, ERR_INVALID, 0,
                           "secrets.key cannot be read (%s): make it readable for root, or set "
                           "SANDBOXD_SECRETS_KEY to its content",
                           why.msg);
        }
        if (used_before) {
            return err_set(
                e, ERR_INVALID, 0,
                "secrets.key is missing and secrets were sealed with it: put %s back from "
                "your backup, or set SANDBOXD_SECRETS_KEY to its content",
                path);
        }
        return master_make(path, ret_key, e);
    }
    int rc = master_decode(str_n(text, len), ret_key);
    mem_wipe(text, len);
    return rc == 0 ? 0
                   : err_set(e, ERR_INVALID, 0,
                             "secrets.key does not hold a key; wanted is " MASTER_WANTED
                             ": put the right file back from your backup");
}

static int master_read(struct vault *v, bool used_before, uint8_t ret_key[CRYPTO_KEY_BYTES],
                       struct err *e)
{
    const char *setting = v->config->secrets_key;
    if (!setting[0]) {
        return master_from_file(v, used_before, ret_key, e);
    }
    return master_decode(str_of(setting), ret_key) == 0
               ? 0
               : err_set(e, ERR_INVALID, 0,
                         "SANDBOXD_SECRETS_KEY is not a key; wanted is " MASTER_WANTED);
}

int vault_load_master(struct vault *v, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(65536);
    const char *known = "";
    uint8_t key[CRYPTO_KEY_BYTES];
    /* The id in the settings also stands for the boxes of tasks: it is stored before the first of
     * them. */
    if (settings_get(v->db, MASTER_SETTING, a, &known, e) != 0 ||
        master_read(v, known[0] || master_boxes_exist(v), key, e) != 0) {
        return -1;
    }
    crypto_master_init(&v->master, key);
    mem_wipe(key, sizeof(key));
    if (!known[0]) {
        return settings_set(v->db, MASTER_SETTING, v->master.id, e);
    }
    if (strcmp(known, v->master.id) != 0) {
        return err_set(
            e, ERR_INVALID, 0,
            "%s holds another key (%s) than the one that sealed what is stored (%s): put "
            "the right one back from your backup",
            v->config->secrets_key[0] ? "SANDBOXD_SECRETS_KEY" : "secrets.key", v->master.id,
            known);
    }
    return 0;
}
