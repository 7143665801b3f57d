/*
 * Header policy of the credentials role.
 *
 * Must never let a key header of the client through, nor anything of the provider's that belongs to
 * its own origin. Pure functions.
 */
#include "proxy/credentials_head.h"

#include <stddef.h>

#include "lib/mem.h"

static bool is_one_of(struct str name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (str_eq_nocase(name, str_of(names[i]))) {
            return true;
        }
    }
    return false;
}

struct str credentials_token(const struct head *request)
{
    const struct str bearer = STR("Bearer ");
    struct str value = head_get(request, "authorization");

    if (value.len > bearer.len && str_eq_nocase(str_cut(value, 0, bearer.len), bearer)) {
        return str_trim(str_cut(value, bearer.len, value.len));
    }
    value = head_get(request, "x-api-key");
    if (value.len > 0) {
        return value;
    }
    value = head_get(request, "x-goog-api-key");
    return value.len > 0 ? value : (struct str){NULL, 0};
}

bool credentials_drops_request_field(const struct head *request, struct str name)
{
    static const char *const dropped[] = {
        "authorization", "x-api-key",      "x-goog-api-key", "api-key",   "cookie",
        "host",          "content-length", "expect",         "forwarded", "accept-encoding",
        "via",           "proxy",          "x-real-ip",      "origin",    "referer",
    };
    const struct str forwarded = STR("x-forwarded-");

    return head_is_hop(request, name) || is_one_of(name, dropped, ARRAY_LEN(dropped)) ||
           (name.len >= forwarded.len && str_eq_nocase(str_cut(name, 0, forwarded.len), forwarded));
}

/* Some agents obey any number; a date is as good as the most we allow. */
static void retry_after(struct buf *out, struct str name, struct str value, uint64_t max)
{
    uint64_t number;

    if (!str_to_u64(value, UINT32_MAX, &number) || number > max) {
        number = max;
    }
    buf_printf(out, "%.*s: %llu\r\n", STR_FMT(name), (unsigned long long)number);
}

void credentials_answer_field(struct buf *out, struct str name, struct str value)
{
    static const char *const dropped[] = {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "set-cookie",
        "set-cookie2",
        "location",
        "alt-svc",
        "strict-transport-security",
        "public-key-pins",
        "clear-site-data",
        "x-should-retry-after",
    };

    if (is_one_of(name, dropped, ARRAY_LEN(dropped))) {
        return;
    }
    if (str_eq_nocase(name, STR("retry-after"))) {
        retry_after(out, name, value, LIMIT_RETRY_AFTER_S);
    } else if (str_eq_nocase(name, STR("retry-after-ms"))) {
        retry_after(out, name, value, LIMIT_RETRY_AFTER_S * 1000);
    } else {
        buf_printf(out, "%.*s: %.*s\r\n", STR_FMT(name), STR_FMT(value));
    }
}

void credentials_answer_advice(struct buf *out, unsigned status)
{
    if (status == 401 || status == 402 || status == 403) {
        buf_puts(out, "x-should-retry: false\r\n");
    }
}
