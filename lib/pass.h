/*
 * Passes: signed statements that a browser may load the previews of one sandbox, until when, by
 * which session and under which epoch of access. sandboxd signs them, the preview proxy verifies
 * them with the public key alone.
 *
 * Text: "v1." sandbox "." session "." epoch "." expiry (unix seconds) "." base64url(Ed25519). Pure
 * functions, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/buf.h"
#include "lib/crypto.h"
#include "lib/ulid.h"

#define PASS_BYTES_MAX     256
#define PASS_SESSION_BYTES 33
/* The session of a pass that was asked for with an API token. */
#define PASS_NO_SESSION "0"

struct pass {
    struct ulid sandbox;
    char session[PASS_SESSION_BYTES]; /* 32 hex digits, or PASS_NO_SESSION */
    uint64_t epoch;
    int64_t expires_s;
};

/* Appends the whole text. */
void pass_sign(const struct pass *p, const uint8_t seed[CRYPTO_KEY_BYTES], struct buf *out);
/* Reads it, strictly; says nothing about the signature. */
bool pass_parse(struct str text, struct pass *ret);
/* The same, and whether the signature is that key's. The expiry is the caller's to look at. */
bool pass_verify(struct str text, const uint8_t public_key[CRYPTO_KEY_BYTES], struct pass *ret);
