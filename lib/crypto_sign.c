/*
 * Ed25519 signatures. Any thread.
 */
#include <stdlib.h>

#include <openssl/err.h>
#include <openssl/evp.h>

#include "lib/crypto.h"

static EVP_PKEY *sign_key(const uint8_t seed[CRYPTO_KEY_BYTES])
{
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, CRYPTO_KEY_BYTES);
    if (!key) {
        abort();
    }
    return key;
}

void crypto_sign_public(const uint8_t seed[CRYPTO_KEY_BYTES], uint8_t ret_public[CRYPTO_KEY_BYTES])
{
    EVP_PKEY *key = sign_key(seed);
    size_t len = CRYPTO_KEY_BYTES;
    if (EVP_PKEY_get_raw_public_key(key, ret_public, &len) != 1 || len != CRYPTO_KEY_BYTES) {
        abort();
    }
    EVP_PKEY_free(key);
}

void crypto_sign(const uint8_t seed[CRYPTO_KEY_BYTES], struct str data,
                 uint8_t ret_signature[CRYPTO_SIGNATURE_BYTES])
{
    EVP_PKEY *key = sign_key(seed);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    size_t len = CRYPTO_SIGNATURE_BYTES;
    if (!ctx || EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) != 1 ||
        EVP_DigestSign(ctx, ret_signature, &len, (const unsigned char *)data.ptr, data.len) != 1 ||
        len != CRYPTO_SIGNATURE_BYTES) {
        abort();
    }
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
}

bool crypto_verify(const uint8_t public_key[CRYPTO_KEY_BYTES], struct str data,
                   const uint8_t signature[CRYPTO_SIGNATURE_BYTES])
{
    EVP_PKEY *key =
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public_key, CRYPTO_KEY_BYTES);
    EVP_MD_CTX *ctx = key ? EVP_MD_CTX_new() : NULL;
    bool good = ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
                EVP_DigestVerify(ctx, signature, CRYPTO_SIGNATURE_BYTES,
                                 (const unsigned char *)data.ptr, data.len) == 1;
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
    /* A refusal leaves its reason in the thread's queue, for nobody. */
    ERR_clear_error();
    return good;
}
