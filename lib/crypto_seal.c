/*
 * Sealed boxes: AES-256-GCM under a key derived per purpose. Any thread.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "lib/crypto.h"
#include "lib/mem.h"

#define SEAL_NONCE_BYTES   12
#define SEAL_TAG_BYTES     16
#define SEAL_BOX_BYTES_MAX (1024 * 1024)

void crypto_master_init(struct crypto_master *m, const uint8_t key[CRYPTO_KEY_BYTES])
{
    char hex[CRYPTO_SHA256_HEX];
    memcpy(m->key, key, CRYPTO_KEY_BYTES);
    crypto_sha256_hex(str_n(key, CRYPTO_KEY_BYTES), hex);
    memcpy(m->id, hex, CRYPTO_KEY_ID_HEX - 1);
    m->id[CRYPTO_KEY_ID_HEX - 1] = '\0';
}

static void seal_derive(const struct crypto_master *m, const char *purpose,
                        uint8_t ret_key[CRYPTO_KEY_BYTES])
{
    union {
        const void *ours;
        void *theirs;
    } key = {.ours = m->key};

    union {
        const char *ours;
        void *theirs;
    } info = {.ours = purpose};

    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key.theirs, CRYPTO_KEY_BYTES),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.theirs, strlen(purpose)),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    if (!ctx || EVP_KDF_derive(ctx, ret_key, CRYPTO_KEY_BYTES, params) != 1) {
        abort();
    }
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
}

static void seal_bind(struct buf *aad, const struct crypto_master *m, const char *purpose,
                      const char *row)
{
    buf_printf(aad, "v1|%s|%s|%s", m->id, purpose, row);
}

void crypto_seal(const struct crypto_master *m, const char *purpose, const char *row,
                 struct str plain, struct buf *out)
{
    uint8_t key[CRYPTO_KEY_BYTES];
    seal_derive(m, purpose, key);
    BUF_AUTO(aad, 1024);
    BUF_AUTO(raw, SEAL_BOX_BYTES_MAX);
    seal_bind(&aad, m, purpose, row);
    if (!buf_ok(&aad) || plain.len > SEAL_BOX_BYTES_MAX ||
        !buf_reserve(&raw, SEAL_NONCE_BYTES + plain.len + SEAL_TAG_BYTES)) {
        mem_wipe(key, sizeof(key));
        out->failed = true;
        return;
    }
    uint8_t *nonce = (uint8_t *)raw.ptr;
    uint8_t *text = nonce + SEAL_NONCE_BYTES;
    crypto_random(nonce, SEAL_NONCE_BYTES);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n = 0;
    int ok = ctx && EVP_EncryptInit_ex2(ctx, EVP_aes_256_gcm(), key, nonce, NULL) == 1 &&
             EVP_EncryptUpdate(ctx, NULL, &n, (const uint8_t *)aad.ptr, (int)aad.len) == 1 &&
             EVP_EncryptUpdate(ctx, text, &n, (const uint8_t *)plain.ptr, (int)plain.len) == 1 &&
             EVP_EncryptFinal_ex(ctx, text + n, &n) == 1 &&
             EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, SEAL_TAG_BYTES, text + plain.len) == 1;
    EVP_CIPHER_CTX_free(ctx);
    mem_wipe(key, sizeof(key));
    if (!ok) {
        abort(); /* our own key and sizes: only a broken OpenSSL gets here */
    }
    buf_grew(&raw, SEAL_NONCE_BYTES + plain.len + SEAL_TAG_BYTES);
    buf_printf(out, "v1.%s.", m->id);
    crypto_base64(buf_str(&raw), true, out);
}

/* Splits "v1.<id>.<base64>" and decodes the last part. */
static int seal_unpack(const struct crypto_master *m, struct str box, struct buf *raw,
                       struct err *e)
{
    struct str version;
    struct str id;
    if (!str_split(&box, '.', &version) || !str_is(version, "v1") || !str_split(&box, '.', &id) ||
        !box.ptr) {
        return err_set(e, ERR_INVALID, 0, "not a sealed box of version 1");
    }
    if (!str_is(id, m->id)) {
        return err_set(e, ERR_FORBIDDEN, 0, "sealed with key %.*s, the key here is %s",
                       (int)(id.len < 17 ? id.len : 0), id.ptr, m->id);
    }
    if (crypto_unbase64(box, true, raw, e) != 0) {
        return -1;
    }
    if (!buf_ok(raw) || raw->len < SEAL_NONCE_BYTES + SEAL_TAG_BYTES) {
        return err_set(e, ERR_INVALID, 0, "a sealed box of the wrong size");
    }
    return 0;
}

int crypto_open(const struct crypto_master *m, const char *purpose, const char *row, struct str box,
                struct buf *out, struct err *e)
{
    BUF_AUTO(raw, SEAL_BOX_BYTES_MAX);
    BUF_AUTO(aad, 1024);
    if (seal_unpack(m, box, &raw, e) != 0) {
        return -1;
    }
    size_t len = raw.len - SEAL_NONCE_BYTES - SEAL_TAG_BYTES;
    if (!buf_reserve(out, len)) {
        return err_set(e, ERR_LIMIT, 0, "a sealed box of %zu bytes", len);
    }
    seal_bind(&aad, m, purpose, row);
    if (!buf_ok(&aad)) {
        return err_set(e, ERR_INVALID, 0, "purpose and row of a sealed box are too long");
    }
    uint8_t key[CRYPTO_KEY_BYTES];
    seal_derive(m, purpose, key);
    uint8_t *nonce = (uint8_t *)raw.ptr;
    uint8_t *text = nonce + SEAL_NONCE_BYTES;
    uint8_t *plain = (uint8_t *)out->ptr + out->len;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n = 0;
    int ok = ctx && EVP_DecryptInit_ex2(ctx, EVP_aes_256_gcm(), key, nonce, NULL) == 1 &&
             EVP_DecryptUpdate(ctx, NULL, &n, (const uint8_t *)aad.ptr, (int)aad.len) == 1 &&
             EVP_DecryptUpdate(ctx, plain, &n, text, (int)len) == 1 &&
             EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, SEAL_TAG_BYTES, text + len) == 1 &&
             EVP_DecryptFinal_ex(ctx, plain + len, &n) == 1;
    EVP_CIPHER_CTX_free(ctx);
    mem_wipe(key, sizeof(key));
    if (!ok) {
        mem_wipe(plain, len);
        return err_set(e, ERR_FORBIDDEN, 0, "a sealed box that was changed or belongs elsewhere");
    }
    buf_grew(out, len);
    return 0;
}
