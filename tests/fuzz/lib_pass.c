/*
 * Fuzzes the reader of passes: what it takes has one spelling, and no signature but the key's own
 * is believed. One thread.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/pass.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t seed[CRYPTO_KEY_BYTES] = {1, 2, 3};
    uint8_t public_key[CRYPTO_KEY_BYTES];
    struct str text = str_n(data, size);
    struct pass pass;

    BUF_AUTO(again, PASS_BYTES_MAX);

    if (!pass_parse(text, &pass)) {
        return 0;
    }
    /* Ed25519 is deterministic: the statement's own signature gives the text back, byte by byte. */
    pass_sign(&pass, seed, &again);
    crypto_sign_public(seed, public_key);
    if (!buf_ok(&again) || again.len != text.len ||
        pass_verify(text, public_key, &pass) != str_eq(buf_str(&again), text)) {
        abort();
    }
    return 0;
}
