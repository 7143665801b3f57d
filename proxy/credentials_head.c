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

void credentials_answer_last_word(struct buf *out)
{
    buf_puts(out, "x-should-retry: false\r\n");
}

static struct str extra_name(struct str line)
{
    ptrdiff_t colon = str_find(line, ':');

    return str_cut(line, 0, colon > 0 ? (size_t)colon : 0);
}

bool credentials_is_extra(const char *const *lines, unsigned count, struct str name)
{
    for (unsigned i = 0; i < count; i++) {
        if (str_eq_nocase(extra_name(str_of(lines[i])), name)) {
            return true;
        }
    }
    return false;
}

void credentials_extra_field(struct buf *out, const struct head *request, struct str line)
{
    struct str name = extra_name(line);
    struct str value = str_trim(str_cut(line, name.len + 1, line.len));
    bool is_there = false;
    size_t start = out->len;

    buf_printf(out, "%.*s: ", STR_FMT(name));
    for (unsigned i = 0; i < request->count && i < request->trailers_from; i++) {
        struct str list = head_value(request, i);
        struct str part;

        if (!str_eq_nocase(head_name(request, i), name)) {
            continue;
        }
        while (str_split(&list, ',', &part)) {
            part = str_trim(part);
            if (part.len > 0) {
                is_there = is_there || str_eq(part, value);
                buf_printf(out, "%.*s,", STR_FMT(part));
            }
        }
    }
    if (!is_there) {
        buf_add_str(out, value);
    } else if (out->len > start) {
        out->ptr[--out->len] = '\0'; /* the last comma */
    }
}
