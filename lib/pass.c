/*
 * Passes. Must never take one text for two statements: every field has exactly one spelling. Any
 * thread.
 */
#include "lib/pass.h"

#include <stdio.h>

/* No other signature of this key can stand for a pass. */
#define PASS_CONTEXT "sandboxd preview pass\n"

static void pass_text(const struct pass *p, struct buf *out)
{
    buf_printf(out, "v1.%s.%s.%llu.%lld", p->sandbox.text, p->session, (unsigned long long)p->epoch,
               (long long)p->expires_s);
}

static void pass_message(struct str statement, struct buf *out)
{
    buf_puts(out, PASS_CONTEXT);
    buf_add_str(out, statement);
}

void pass_sign(const struct pass *p, const uint8_t seed[CRYPTO_KEY_BYTES], struct buf *out)
{
    BUF_AUTO(statement, PASS_BYTES_MAX);
    BUF_AUTO(message, 2 * PASS_BYTES_MAX);
    uint8_t signature[CRYPTO_SIGNATURE_BYTES];

    pass_text(p, &statement);
    pass_message(buf_str(&statement), &message);
    crypto_sign(seed, buf_str(&message), signature);
    buf_add_str(out, buf_str(&statement));
    buf_putc(out, '.');
    crypto_base64(str_n(signature, sizeof signature), true, out);
}

static bool pass_session(struct str text, char ret[PASS_SESSION_BYTES])
{
    bool is_name = text.len == PASS_SESSION_BYTES - 1;

    for (size_t i = 0; is_name && i < text.len; i++) {
        char c = text.ptr[i];

        is_name = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    }
    if (!is_name && !str_is(text, PASS_NO_SESSION)) {
        return false;
    }
    (void)snprintf(ret, PASS_SESSION_BYTES, "%.*s", STR_FMT(text));
    return true;
}

/* *ret_statement is what was signed, *ret_signature what follows it. */
static bool pass_split(struct str text, struct pass *ret, struct str *ret_statement,
                       struct str *ret_signature)
{
    struct str part[6] = {{NULL, 0}};
    struct str rest = text;
    uint64_t expires = 0;
    size_t count = 0;

    if (text.len > PASS_BYTES_MAX) {
        return false;
    }
    while (count < 6 && str_split(&rest, '.', &part[count])) {
        count++;
    }
    if (count != 6 || rest.ptr || !str_is(part[0], "v1") || !ulid_parse(part[1], &ret->sandbox) ||
        !pass_session(part[2], ret->session) || !str_to_u64(part[3], INT64_MAX, &ret->epoch) ||
        !str_to_u64(part[4], INT64_MAX, &expires)) {
        return false;
    }
    ret->expires_s = (int64_t)expires;
    *ret_signature = part[5];
    *ret_statement = str_cut(text, 0, text.len - part[5].len - 1);
    return true;
}

static bool pass_signature(struct str text, uint8_t ret[CRYPTO_SIGNATURE_BYTES])
{
    BUF_AUTO(bytes, 2 * CRYPTO_SIGNATURE_BYTES);
    BUF_AUTO(again, PASS_BYTES_MAX);
    struct err e;

    if (crypto_unbase64(text, true, &bytes, &e) != 0 || bytes.len != CRYPTO_SIGNATURE_BYTES) {
        return false;
    }
    crypto_base64(buf_str(&bytes), true, &again);
    memcpy(ret, bytes.ptr, CRYPTO_SIGNATURE_BYTES);
    return str_eq(buf_str(&again), text);
}

bool pass_parse(struct str text, struct pass *ret)
{
    struct str statement, encoded;
    uint8_t signature[CRYPTO_SIGNATURE_BYTES];

    return pass_split(text, ret, &statement, &encoded) && pass_signature(encoded, signature);
}

bool pass_verify(struct str text, const uint8_t public_key[CRYPTO_KEY_BYTES], struct pass *ret)
{
    BUF_AUTO(message, 2 * PASS_BYTES_MAX);
    struct str statement, encoded;
    uint8_t signature[CRYPTO_SIGNATURE_BYTES];

    if (!pass_split(text, ret, &statement, &encoded) || !pass_signature(encoded, signature)) {
        return false;
    }
    pass_message(statement, &message);
    return crypto_verify(public_key, buf_str(&message), signature);
}
