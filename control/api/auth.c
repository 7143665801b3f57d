/*
 * Who may ask: hosts, origins, tokens, sessions. Runs before a body is read, on worker threads.
 *
 * The API's port belongs to programs on this machine with a bearer token; the console's port to
 * browsers with a session. A page of a preview is an attacker's page: nothing here trusts a cookie
 * without a matching Origin.
 */
#include <stdio.h>

#include "control/api/api.h"

static bool auth_mutates(const struct http_request *r)
{
    return strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0;
}

/* Host without its port; empty when what follows the name is no port. */
static struct str auth_hostname(struct str host)
{
    struct str none = {"", 0};
    uint64_t port = 0;
    ptrdiff_t bracket = host.len && host.ptr[0] == '[' ? str_find(host, ']') : -1;
    size_t from = bracket < 0 ? 0 : (size_t)bracket + 1;
    struct str rest = str_cut(host, from, host.len);
    ptrdiff_t colon = str_find(rest, ':');
    size_t end = colon < 0 ? host.len : from + (size_t)colon;
    if (colon >= 0 && !str_to_u64(str_cut(rest, (size_t)colon + 1, rest.len), 65535, &port)) {
        return none;
    }
    if (bracket >= 0 && end != from) {
        return none;
    }
    return str_cut(host, 0, end);
}

/* ---- the API's port ---- */

static const char *auth_token_name(const struct config *c, struct str token)
{
    const char *name = NULL;
    /* All are compared, so that time does not say which one came close. */
    for (unsigned i = 0; i < c->token_count; i++) {
        name = str_eq_secret(token, str_of(c->tokens[i].secret)) ? c->tokens[i].name : name;
    }
    return name;
}

static bool auth_bearer(struct str header, struct str *ret_token)
{
    if (header.len < 7 || !str_eq_nocase(str_cut(header, 0, 7), STR("bearer "))) {
        return false;
    }
    *ret_token = str_trim(str_cut(header, 7, header.len));
    return true;
}

static bool auth_api(struct api *api, struct http_request *r, struct http_response *p,
                     const struct http_route *route)
{
    struct str host = auth_hostname(r->host);
    struct str token;
    if (!str_is(host, "127.0.0.1") && !str_eq_nocase(host, STR("localhost")) &&
        !str_is(host, "[::1]")) {
        http_error(p, "forbidden",
                   "the API answers to http://127.0.0.1:%u only; browsers use the console",
                   api->config->api_port);
        return false;
    }
    if (http_header(r, "origin").ptr) {
        http_error(p, "forbidden", "the API is not for web pages; use the console");
        return false;
    }
    if (route->flags & HTTP_PUBLIC) {
        return true;
    }
    if (api->config->auth_disabled) {
        r->actor = "anonymous";
        return true;
    }
    r->actor = auth_bearer(http_header(r, "authorization"), &token)
                   ? auth_token_name(api->config, token)
                   : NULL;
    if (r->actor) {
        return true;
    }
    http_error(
        p, "unauthorized",
        "401: no or wrong token; send \"Authorization: Bearer sk_…\" with the token that the "
        "installer printed and wrote to SANDBOXD_API_TOKENS in ~/.sandboxd/src/.env");
    return false;
}

/* ---- the console's port ---- */

static bool auth_console_host(const struct api *api, const struct http_request *r, bool *ret_local)
{
    struct str host = auth_hostname(r->host);
    *ret_local = str_eq_nocase(host, STR("console.localhost"));
    return *ret_local || str_eq_nocase(host, str_of(api->config->console_host));
}

/* The preview domain itself or a name below it: a preview's page is on the same site. */
static bool auth_same_site(struct str host, struct str domain)
{
    bool below = host.len > domain.len && host.ptr[host.len - domain.len - 1] == '.';
    return str_ends(host, domain) && (below || host.len == domain.len);
}

static bool auth_console_plain(const struct api *api, struct http_response *p, bool local)
{
    const struct config *c = api->config;
    bool outside = !auth_same_site(str_of(c->console_host), str_of(c->preview_domain));
    if (local || c->preview_tls || config_domain_is_local(c) ||
        (c->console_insecure_http && outside)) {
        return true;
    }
    http_error(
        p, "forbidden",
        "the console is not served over plain HTTP on %s, where any preview could steal its "
        "session. Three ways out: PREVIEW_TLS=true; the tunnel (ssh -L 8080:127.0.0.1:%u) and "
        "http://console.localhost:8080; or CONSOLE_INSECURE_HTTP=true with a CONSOLE_HOST outside "
        "%s, on a network of your own",
        c->console_host, c->http_port, c->preview_domain);
    return false;
}

/* Origin must be this very host with the person's own port. */
static bool auth_origin(const struct api *api, const struct http_request *r)
{
    struct str origin = http_header(r, "origin");
    struct str scheme = api->config->preview_tls ? STR("https://") : STR("http://");
    bool tunnel = str_eq_nocase(auth_hostname(r->host), STR("console.localhost"));
    scheme = tunnel && str_starts(origin, STR("http://")) ? STR("http://") : scheme;
    return origin.ptr && str_starts(origin, scheme) &&
           str_eq_nocase(str_cut(origin, scheme.len, origin.len), r->host);
}

static bool auth_json_type(const struct http_request *r)
{
    struct str type = http_header(r, "content-type");
    ptrdiff_t semicolon = str_find(type, ';');
    struct str media = str_trim(semicolon < 0 ? type : str_cut(type, 0, (size_t)semicolon));
    return str_eq_nocase(media, STR("application/json"));
}

static bool auth_mutation(const struct api *api, const struct http_request *r,
                          struct http_response *p)
{
    if (!auth_mutates(r)) {
        return true;
    }
    if (!auth_origin(api, r)) {
        http_error(p, "forbidden", "this request does not come from the console's own page");
        return false;
    }
    if (!auth_json_type(r)) {
        http_error(p, "unsupported_media_type", "the content type must be application/json");
        return false;
    }
    return true;
}

static bool auth_console(struct api *api, struct http_request *r, struct http_response *p,
                         const struct http_route *route)
{
    bool local = false;
    http_add_header(p, "X-Frame-Options", "DENY");
    http_add_header(p, "Referrer-Policy", "no-referrer");
    http_add_header(
        p, "Content-Security-Policy",
        "default-src 'self'; img-src 'self' data:; frame-src http: https:; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'");
    if (!auth_console_host(api, r, &local)) {
        http_error(p, "not_found", "there is nothing here");
        return false;
    }
    if (http_header(r, "authorization").ptr) {
        http_error(
            p, "forbidden",
            "tokens are for the API at http://127.0.0.1:%u on the server itself, never for the "
            "console's address",
            api->config->api_port);
        return false;
    }
    if (!auth_console_plain(api, p, local) || !auth_mutation(api, r, p)) {
        return false;
    }
    if (route->flags & HTTP_PUBLIC) {
        return true;
    }
    if (!api_session_valid(api, r)) {
        http_error(p, "unauthorized", "401: sign in first");
        return false;
    }
    r->actor = "console";
    return true;
}

bool api_authorize(struct http_request *r, struct http_response *p, const struct http_route *route,
                   void *ctx)
{
    return r->from_console ? auth_console(ctx, r, p, route) : auth_api(ctx, r, p, route);
}
