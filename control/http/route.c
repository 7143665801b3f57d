/*
 * Route table. Pure, on worker threads.
 */
#include "control/http/route.h"

static int route_hex(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool route_decode(struct arena *a, struct str s, bool plus, struct str *ret)
{
    char *out = arena_try(a, s.len + 1);
    size_t n = 0;
    if (!out) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            bool whole = s.len - i > 2;
            int high = whole ? route_hex(s.ptr[i + 1]) : -1;
            int low = whole ? route_hex(s.ptr[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return false;
            }
            c = (char)(high << 4 | low);
            i += 2;
            if ((unsigned char)c < 0x20 || c == 0x7F) {
                return false;
            }
        }
        out[n++] = plus && c == '+' ? ' ' : c;
    }
    *ret = (struct str){out, n};
    return true;
}

/* Decodes one path segment that stands for a parameter: no slash, no dot segments hidden in
 * escapes. */
static bool route_param(struct http_request *r, struct str segment, size_t at)
{
    struct str value;
    if (at >= HTTP_PARAMS_MAX || !route_decode(r->arena, segment, false, &value) ||
        value.len == 0 || str_find(value, '/') >= 0 || str_is(value, ".") || str_is(value, "..")) {
        return false;
    }
    r->params[at] = value;
    return true;
}

/* 1 match, 0 none, -1 matches but a parameter is malformed. */
static int route_match(const struct http_route *route, struct http_request *r)
{
    struct str pattern = str_of(route->pattern);
    struct str path = r->path;
    struct str want;
    struct str have;
    size_t params = 0;
    bool bad = false;
    for (;;) {
        bool more = str_split(&pattern, '/', &want);
        if (more != str_split(&path, '/', &have)) {
            return 0;
        }
        if (!more) {
            return bad ? -1 : 1;
        }
        if (want.len > 1 && want.ptr[0] == ':') {
            bad = bad || !route_param(r, have, params);
            params++;
        } else if (!str_eq(want, have)) {
            return 0;
        }
    }
}

static bool route_method(const struct http_route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

static bool route_here(const struct http_route *route, const struct http_request *r)
{
    return !(route->flags & (r->from_console ? HTTP_API_ONLY : HTTP_CONSOLE_ONLY));
}

enum route_result route_find(const struct http_route *routes, size_t count, struct http_request *r,
                             const struct http_route **ret)
{
    enum route_result result = ROUTE_NO_PATH;
    for (size_t i = 0; i < count; i++) {
        const struct http_route *route = &routes[i];
        if (!route_here(route, r) || (route->flags & HTTP_FALLBACK)) {
            continue;
        }
        int match = route_match(route, r);
        if (match == 0) {
            continue;
        }
        if (!route_method(route, r->method)) {
            result = ROUTE_NO_METHOD;
            continue;
        }
        *ret = route;
        return match < 0 ? ROUTE_BAD_PATH : ROUTE_FOUND;
    }
    for (size_t i = 0; i < count && result == ROUTE_NO_PATH; i++) {
        if ((routes[i].flags & HTTP_FALLBACK) && route_here(&routes[i], r) &&
            route_method(&routes[i], r->method)) {
            *ret = &routes[i];
            return ROUTE_FOUND;
        }
    }
    return result;
}

void route_methods(const struct http_route *routes, size_t count, struct http_request *r,
                   struct buf *out)
{
    for (size_t i = 0; i < count; i++) {
        if (route_here(&routes[i], r) && !(routes[i].flags & HTTP_FALLBACK) &&
            route_match(&routes[i], r) != 0) {
            buf_printf(out, "%s%s", out->len ? ", " : "", routes[i].method);
        }
    }
}
