/*
 * Cryptography: the one wrapper of OpenSSL. Hashes, random bytes, sealed boxes, signatures,
 * password hashes, base64, hex. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/buf.h"
#include "lib/err.h"
#include "lib/str.h"

#define CRYPTO_KEY_BYTES    32
#define CRYPTO_SHA256_BYTES 32
#define CRYPTO_SHA256_HEX   65
#define CRYPTO_KEY_ID_HEX   17

/* Aborts when the system cannot give random bytes. */
void crypto_random(void *bytes, size_t len);
/* Random token: prefix + base64url of `bytes` random bytes (letters, digits, - and _). Appended. */
void crypto_token(struct buf *out, const char *prefix, size_t bytes);

void crypto_sha256(struct str data, uint8_t ret_hash[CRYPTO_SHA256_BYTES]);
void crypto_sha256_hex(struct str data, char ret_hex[CRYPTO_SHA256_HEX]);
/* Incremental. */
struct crypto_hash;
struct crypto_hash *crypto_hash_new(void);
void crypto_hash_add(struct crypto_hash *h, struct str data);
/* Finishes and frees. */
void crypto_hash_hex(struct crypto_hash *take_h, char ret_hex[CRYPTO_SHA256_HEX]);

void crypto_hex(struct str data, struct buf *out);
void crypto_base64(struct str data, bool url_alphabet, struct buf *out);
/* Strict decoding of standard base64 (padding wanted) or base64url (no padding). ERR_INVALID. */
int crypto_unbase64(struct str text, bool url_alphabet, struct buf *out, struct err *e) MUST_CHECK;

/* Sealed box: "v1." key id "." base64url(nonce | ciphertext | tag), AES-256-GCM under
 * HKDF-SHA256(master, purpose); purpose and row are bound as associated data (together less than
 * 900 bytes). */
struct crypto_master {
    uint8_t key[CRYPTO_KEY_BYTES];
    char id[CRYPTO_KEY_ID_HEX]; /* first 16 hex digits of SHA-256(key) */
};

void crypto_master_init(struct crypto_master *m, const uint8_t key[CRYPTO_KEY_BYTES]);
/* Appended; out fails past its maximum, for a plain text of 1 MiB and for an over-long row. */
void crypto_seal(const struct crypto_master *m, const char *purpose, const char *row,
                 struct str plain, struct buf *out);
/* ERR_INVALID malformed, ERR_FORBIDDEN another key's box or a changed one; the message names the
 * key id. */
int crypto_open(const struct crypto_master *m, const char *purpose, const char *row, struct str box,
                struct buf *out, struct err *e) MUST_CHECK;

#define CRYPTO_SIGNATURE_BYTES 64

/* Ed25519: the public half of a seed, a signature, and whether one is that key's. */
void crypto_sign_public(const uint8_t seed[CRYPTO_KEY_BYTES], uint8_t ret_public[CRYPTO_KEY_BYTES]);
void crypto_sign(const uint8_t seed[CRYPTO_KEY_BYTES], struct str data,
                 uint8_t ret_signature[CRYPTO_SIGNATURE_BYTES]);
bool crypto_verify(const uint8_t public_key[CRYPTO_KEY_BYTES], struct str data,
                   const uint8_t signature[CRYPTO_SIGNATURE_BYTES]);

/* Argon2id (19 MiB, t=2, p=1) as an encoded string; blocks about 30 ms. ERR_INTERNAL. */
int crypto_password_hash(struct str password, struct buf *out, struct err *e) MUST_CHECK;
bool crypto_password_check(struct str password, struct str encoded);
