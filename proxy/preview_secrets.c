/*
 * Credentials of ours in requests for apps.
 *
 * Must never touch an app's own Authorization or cookies. The tokens themselves are not known here,
 * only their hashes. Main thread.
 */
#include "proxy/preview_secrets.h"

#include <stddef.h>
#include <stdio.h>

#include "lib/crypto.h"

#define TOKENS_MAX 32

static struct {
    char hashes[TOKENS_MAX][CRYPTO_SHA256_HEX];
    unsigned count;
} secrets;

void secrets_take(const struct record *settings)
{
    struct str value;
    size_t pos = 0;

    secrets.count = 0;
    while (secrets.count < TOKENS_MAX && record_each_of(settings, &pos, "api_token", &value)) {
        if (value.len == CRYPTO_SHA256_HEX - 1) {
            (void)snprintf(secrets.hashes[secrets.count++], CRYPTO_SHA256_HEX, "%.*s",
                           STR_FMT(value));
        }
    }
}

bool secrets_has_token(struct str authorization)
{
    const struct str bearer = STR("Bearer ");
    char hash[CRYPTO_SHA256_HEX];

    if (secrets.count == 0 || authorization.len <= bearer.len ||
        !str_eq_nocase(str_cut(authorization, 0, bearer.len), bearer)) {
        return false;
    }
    crypto_sha256_hex(str_trim(str_cut(authorization, bearer.len, authorization.len)), hash);
    for (unsigned i = 0; i < secrets.count; i++) {
        if (str_is(str_of(hash), secrets.hashes[i])) {
            return true;
        }
    }
    return false;
}

/* The console's session and whatever else we may call our own later. */
static bool is_ours(struct str cookie)
{
    return str_starts(cookie, STR("sandboxd_")) || str_starts(cookie, STR("__Host-sandboxd_"));
}

bool secrets_has_cookie(struct str cookies)
{
    struct str part;

    while (str_split(&cookies, ';', &part)) {
        if (is_ours(str_trim(part))) {
            return true;
        }
    }
    return false;
}

void secrets_add_cookies(struct buf *out, struct str cookies)
{
    struct str part;
    bool is_first = true;

    while (str_split(&cookies, ';', &part)) {
        part = str_trim(part);
        if (part.len == 0 || is_ours(part)) {
            continue;
        }
        buf_puts(out, is_first ? "" : "; ");
        buf_add_str(out, part);
        is_first = false;
    }
}
