/*
 * Heads of requests on their way to an app.
 *
 * Must never hand an app a credential of ours, or a word about where the visitor came from that
 * the edge did not write. Main thread.
 */
#include "proxy/preview_request.h"

#include "lib/mem.h"
#include "proxy/limits.h"
#include "proxy/preview_secrets.h"

struct rules {
    bool is_tls_in_front; /* TLS ends before the edge, which says http */
    bool drops_origin;
};

static bool starts_nocase(struct str s, struct str prefix)
{
    return s.len >= prefix.len && str_eq_nocase(str_cut(s, 0, prefix.len), prefix);
}

/* The edge has removed what a client claimed and set its own; anything more of that family is
 * somebody's invention. */
static bool is_forwarded_dropped(struct str name, const struct rules *rules)
{
    static const char *const edge[] = {"x-forwarded-for", "x-forwarded-host", "x-forwarded-port",
                                       "x-forwarded-server"};

    if (str_eq_nocase(name, STR("x-forwarded-proto"))) {
        return rules->is_tls_in_front;
    }
    for (size_t i = 0; i < ARRAY_LEN(edge); i++) {
        if (str_eq_nocase(name, str_of(edge[i]))) {
            return false;
        }
    }
    return true;
}

static bool is_dropped(struct str name, struct str value, const void *ctx)
{
    const struct rules *rules = ctx;

    if (starts_nocase(name, STR("x-forwarded-"))) {
        return is_forwarded_dropped(name, rules);
    }
    if (str_eq_nocase(name, STR("authorization"))) {
        return secrets_has_token(value);
    }
    if (str_eq_nocase(name, STR("cookie"))) {
        return secrets_has_cookie(value);
    }
    if (str_eq_nocase(name, STR("origin"))) {
        return rules->drops_origin;
    }
    return str_eq_nocase(name, STR("content-length")) || str_eq_nocase(name, STR("forwarded")) ||
           str_eq_nocase(name, STR("proxy"));
}

static bool is_own_origin(const struct head *h)
{
    struct str origin = head_get(h, "origin");
    struct str host = head_get(h, "host");
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        struct str scheme = str_of(schemes[i]);

        if (str_starts(origin, scheme)) {
            return str_eq_nocase(str_cut(origin, scheme.len, origin.len), host);
        }
    }
    return false;
}

/* `next dev` refuses its own scripts and hot reload to pages of any name but localhost unless the
 * app's configuration lists it; without an Origin it takes the request for a page of its own. So
 * the preview's own origin is not repeated there. Anybody else's is, and stays refused. */
static bool is_next_of_own_page(const struct visit *v)
{
    const struct head *h = &v->x->request;
    struct str target = head_target(h);

    return (str_contains(target, STR("/_next/")) || str_contains(target, STR("/__nextjs"))) &&
           is_own_origin(h);
}

bool request_wants_upgrade(const struct visit *v)
{
    const struct head *h = &v->x->request;

    /* Cleartext HTTP/2 would hide further requests from us. */
    return v->x->is_upgrade && head_count(h, "upgrade") == 1 &&
           !head_has_token(h, "upgrade", "h2c");
}

static void add_forwarded(const struct head *h, const struct rules *rules, struct buf *out)
{
    struct str host = head_get(h, "host");

    if (!head_get(h, "x-forwarded-for").ptr) {
        buf_puts(out, "X-Forwarded-For: 127.0.0.1\r\n");
    }
    if (!head_get(h, "x-forwarded-host").ptr) {
        buf_printf(out, "X-Forwarded-Host: %.*s\r\n", STR_FMT(host));
    }
    if (rules->is_tls_in_front) {
        buf_puts(out, "X-Forwarded-Proto: https\r\n");
    } else if (!head_get(h, "x-forwarded-proto").ptr) {
        buf_puts(out, "X-Forwarded-Proto: http\r\n");
    }
}

/* A field that held a cookie of ours was left out whole; the app's own cookies of it come here. */
static void add_cookies(const struct head *h, struct buf *out)
{
    BUF_AUTO(rest, LIMIT_HEAD_BYTES);

    for (unsigned i = 0; i < h->trailers_from && i < h->count; i++) {
        if (!str_eq_nocase(head_name(h, i), STR("cookie")) ||
            !secrets_has_cookie(head_value(h, i))) {
            continue;
        }
        buf_reset(&rest);
        secrets_add_cookies(&rest, head_value(h, i));
        if (rest.len > 0) {
            buf_printf(out, "Cookie: %.*s\r\n", STR_FMT(buf_str(&rest)));
        }
    }
}

static void add_framing(const struct visit *v, struct buf *out)
{
    const struct exchange *x = v->x;
    struct str upgrade = head_get(&x->request, "upgrade");

    if (x->framing == HTTP_LENGTH) {
        buf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)x->length);
    } else if (x->framing == HTTP_CHUNKED) {
        buf_puts(out, "Transfer-Encoding: chunked\r\n");
    }
    if (request_wants_upgrade(v)) {
        buf_printf(out, "Connection: Upgrade\r\nUpgrade: %.*s\r\n", STR_FMT(upgrade));
    }
}

void request_build_head(const struct visit *v, struct buf *out)
{
    const struct head *h = &v->x->request;
    const struct rules rules = {
        .is_tls_in_front = routes_settings_get()->is_tls && !v->host.is_localhost,
        .drops_origin = is_next_of_own_page(v),
    };

    buf_add_str(out, head_method(h));
    buf_putc(out, ' ');
    buf_add_str(out, head_target(h));
    buf_puts(out, " HTTP/1.1\r\n");
    head_copy(h, out, is_dropped, &rules);
    add_cookies(h, out);
    add_forwarded(h, &rules, out);
    buf_puts(out, "CDN-Loop: sandboxd\r\n");
    add_framing(v, out);
    buf_puts(out, "\r\n");
}
