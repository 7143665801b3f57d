/*
 * The key that signs passes to previews: made once, sealed in the settings. The main thread at
 * start, then any.
 */
#include "control/store/settings.h"
#include "control/vault/vault_private.h"
#include "lib/log.h"
#include "lib/mem.h"

#define PREVIEW_KEY_SETTING "preview_key_box"
#define PREVIEW_KEY_PURPOSE "preview-key"

static int preview_key_make(struct vault *v, struct err *e)
{
    BUF_AUTO(box, 1024);
    crypto_random(v->preview_seed, CRYPTO_KEY_BYTES);
    crypto_seal(&v->master, PREVIEW_KEY_PURPOSE, "ed25519",
                str_n(v->preview_seed, CRYPTO_KEY_BYTES), &box);
    return settings_set(v->db, PREVIEW_KEY_SETTING, box.ptr, e);
}

int vault_load_preview_key(struct vault *v, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(65536);
    BUF_AUTO(seed, CRYPTO_KEY_BYTES);
    const char *box = "";
    if (settings_get(v->db, PREVIEW_KEY_SETTING, a, &box, e) != 0) {
        return -1;
    }
    if (!box[0]) {
        return preview_key_make(v, e);
    }
    if (crypto_open(&v->master, PREVIEW_KEY_PURPOSE, "ed25519", str_of(box), &seed, e) != 0 ||
        seed.len != CRYPTO_KEY_BYTES) {
        return err_set(e, ERR_INVALID, 0,
                       "the key that signs passes to previews does not open: put the right "
                       "secrets.key or SANDBOXD_SECRETS_KEY back");
    }
    memcpy(v->preview_seed, seed.ptr, CRYPTO_KEY_BYTES);
    mem_wipe(seed.ptr, seed.len);
    return 0;
}

void vault_preview_public(const struct vault *v, uint8_t ret_public[CRYPTO_KEY_BYTES])
{
    crypto_sign_public(v->preview_seed, ret_public);
}

void vault_sign_pass(const struct vault *v, const struct pass *pass, struct buf *out)
{
    pass_sign(pass, v->preview_seed, out);
}
