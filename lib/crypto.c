/*
 * Hashes, random bytes, encodings, passwords (OpenSSL). Any thread.
 */
#include "lib/crypto.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include "lib/mem.h"

#define CRYPTO_ARGON_MEMORY_KIB 19456
#define CRYPTO_ARGON_PASSES     2
#define CRYPTO_ARGON_HASH_BYTES 32
#define CRYPTO_ARGON_SALT_BYTES 16
#define CRYPTO_ARGON_PREFIX     "argon2id$m=19456,t=2,p=1$"

void crypto_random(void *bytes, size_t len)
{
    if (RAND_bytes(bytes, (int)len) != 1) {
        abort();
    }
}

void crypto_token(struct buf *out, const char *prefix, size_t bytes)
{
    uint8_t raw[64];
    bytes = bytes < sizeof(raw) ? bytes : sizeof(raw);
    crypto_random(raw, bytes);
    buf_puts(out, prefix);
    crypto_base64(str_n(raw, bytes), true, out);
    mem_wipe(raw, sizeof(raw));
}

void crypto_sha256(struct str data, uint8_t ret_hash[CRYPTO_SHA256_BYTES])
{
    if (EVP_Digest(data.ptr, data.len, ret_hash, NULL, EVP_sha256(), NULL) != 1) {
        abort();
    }
}

static void crypto_hex_to(const uint8_t *bytes, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * len] = '\0';
}

void crypto_sha256_hex(struct str data, char ret_hex[CRYPTO_SHA256_HEX])
{
    uint8_t hash[CRYPTO_SHA256_BYTES];
    crypto_sha256(data, hash);
    crypto_hex_to(hash, sizeof(hash), ret_hex);
}

struct crypto_hash {
    EVP_MD_CTX *ctx; /* owned */
};

struct crypto_hash *crypto_hash_new(void)
{
    struct crypto_hash *h = mem_alloc(sizeof(*h));
    h->ctx = EVP_MD_CTX_new();
    if (!h->ctx || EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1) {
        abort();
    }
    return h;
}

void crypto_hash_add(struct crypto_hash *h, struct str data)
{
    if (EVP_DigestUpdate(h->ctx, data.ptr, data.len) != 1) {
        abort();
    }
}

void crypto_hash_hex(struct crypto_hash *take_h, char ret_hex[CRYPTO_SHA256_HEX])
{
    uint8_t hash[CRYPTO_SHA256_BYTES];
    if (EVP_DigestFinal_ex(take_h->ctx, hash, NULL) != 1) {
        abort();
    }
    crypto_hex_to(hash, sizeof(hash), ret_hex);
    EVP_MD_CTX_free(take_h->ctx);
    free(take_h);
}

void crypto_hex(struct str data, struct buf *out)
{
    if (buf_reserve(out, data.len * 2)) {
        crypto_hex_to((const uint8_t *)data.ptr, data.len, out->ptr + out->len);
        buf_grew(out, data.len * 2);
    }
}

static const char crypto_alphabet_std[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char crypto_alphabet_url[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void crypto_base64(struct str data, bool url_alphabet, struct buf *out)
{
    const char *alphabet = url_alphabet ? crypto_alphabet_url : crypto_alphabet_std;
    for (size_t i = 0; i < data.len; i += 3) {
        size_t left = data.len - i < 3 ? data.len - i : 3;
        uint32_t group = 0;
        for (size_t k = 0; k < 3; k++) {
            group = group << 8 | (k < left ? (uint8_t)data.ptr[i + k] : 0U);
        }
        for (size_t k = 0; k < 4; k++) {
            if (k <= left) {
                buf_putc(out, alphabet[group >> (18 - 6 * k) & 63]);
            } else if (!url_alphabet) {
                buf_putc(out, '=');
            }
        }
    }
}

/* Length of the text without padding; SIZE_MAX when the padding is wrong. */
static size_t crypto_unpad(struct str text, bool url_alphabet)
{
    size_t len = text.len;
    if (!url_alphabet) {
        if (len % 4 != 0) {
            return SIZE_MAX;
        }
        for (int i = 0; i < 2 && len > 0 && text.ptr[len - 1] == '='; i++) {
            len--;
        }
    }
    return len % 4 == 1 ? SIZE_MAX : len;
}

int crypto_unbase64(struct str text, bool url_alphabet, struct buf *out, struct err *e)
{
    const char *alphabet = url_alphabet ? crypto_alphabet_url : crypto_alphabet_std;
    size_t len = crypto_unpad(text, url_alphabet);
    if (len == SIZE_MAX) {
        return err_set(e, ERR_INVALID, 0, "not base64: wrong length");
    }
    uint32_t group = 0;
    unsigned bits = 0;
    for (size_t i = 0; i < len; i++) {
        const char *at = text.ptr[i] ? strchr(alphabet, text.ptr[i]) : NULL;
        if (!at) {
            return err_set(e, ERR_INVALID, 0, "not base64: character %zu", i + 1);
        }
        group = group << 6 | (uint32_t)(at - alphabet);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            buf_putc(out, (char)(group >> bits));
            group &= (1U << bits) - 1;
        }
    }
    /* Left-over bits must be zero: one text for one value. */
    return group != 0 ? err_set(e, ERR_INVALID, 0, "not base64: loose bits at the end") : 0;
}

static int crypto_argon2id(struct str password, struct str salt,
                           uint8_t hash[CRYPTO_ARGON_HASH_BYTES], struct err *e)
{
    uint32_t memory = CRYPTO_ARGON_MEMORY_KIB;
    uint32_t passes = CRYPTO_ARGON_PASSES;
    uint32_t lanes = 1;

    union {
        const char *ours;
        void *theirs;
    } pass = {.ours = password.ptr};

    union {
        const char *ours;
        void *theirs;
    } grain = {.ours = salt.ptr};

    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PASSWORD, pass.theirs, password.len),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, grain.theirs, salt.len),
        OSSL_PARAM_construct_uint32(OSSL_KDF_PARAM_ARGON2_MEMCOST, &memory),
        OSSL_PARAM_construct_uint32(OSSL_KDF_PARAM_ITER, &passes),
        OSSL_PARAM_construct_uint32(OSSL_KDF_PARAM_ARGON2_LANES, &lanes),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "ARGON2ID", NULL);
    EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    int ok = ctx ? EVP_KDF_derive(ctx, hash, CRYPTO_ARGON_HASH_BYTES, params) : 0;
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    return ok == 1 ? 0 : err_set(e, ERR_INTERNAL, 0, "OpenSSL could not compute Argon2id");
}

int crypto_password_hash(struct str password, struct buf *out, struct err *e)
{
    uint8_t salt[CRYPTO_ARGON_SALT_BYTES];
    uint8_t hash[CRYPTO_ARGON_HASH_BYTES];
    crypto_random(salt, sizeof(salt));
    if (crypto_argon2id(password, str_n(salt, sizeof(salt)), hash, e) != 0) {
        return -1;
    }
    buf_puts(out, CRYPTO_ARGON_PREFIX);
    crypto_base64(str_n(salt, sizeof(salt)), true, out);
    buf_putc(out, '$');
    crypto_base64(str_n(hash, sizeof(hash)), true, out);
    return 0;
}

bool crypto_password_check(struct str password, struct str encoded)
{
    BUF_AUTO(salt, 64);
    BUF_AUTO(wanted, 64);
    struct str salt_text;
    if (!str_starts(encoded, STR(CRYPTO_ARGON_PREFIX))) {
        return false;
    }
    struct str rest = str_cut(encoded, sizeof(CRYPTO_ARGON_PREFIX) - 1, encoded.len);
    if (!str_split(&rest, '$', &salt_text) || crypto_unbase64(salt_text, true, &salt, NULL) != 0 ||
        crypto_unbase64(rest, true, &wanted, NULL) != 0) {
        return false;
    }
    uint8_t hash[CRYPTO_ARGON_HASH_BYTES];
    return crypto_argon2id(password, buf_str(&salt), hash, NULL) == 0 &&
           str_eq_secret(str_n(hash, sizeof(hash)), buf_str(&wanted));
}
