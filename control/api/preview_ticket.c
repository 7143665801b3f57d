/*
 * Tickets to previews: the way in for the owner's browser. Worker threads.
 */
#include "control/api/api.h"
#include "control/sandbox/tickets.h"
#include "lib/clock.h"
#include "lib/url_path.h"

#define TICKET_PATH_BYTES_MAX 2048

/* A pass over plain HTTP can be read by everybody on the way: only the owner's word allows that. */
static bool ticket_allowed(const struct api *api, struct http_response *p)
{
    const struct config *c = api->config;
    if (c->preview_tls || config_domain_is_local(c) || c->console_insecure_http) {
        return true;
    }
    http_error(p, "conflict",
               "a preview of %s is not opened over plain HTTP, where anybody on the way could read "
               "the pass: set PREVIEW_TLS=true, or CONSOLE_INSECURE_HTTP=true with a CONSOLE_HOST "
               "outside %s on a network of your own; a public app needs no ticket",
               c->preview_domain, c->preview_domain);
    return false;
}

struct ticket_order {
    struct ulid id;
    int64_t port;
    const char *path;
};

static bool ticket_read(struct api *api, struct http_request *r, struct http_response *p,
                        struct ticket_order *ret)
{
    static const char *const allowed[] = {"port", "path", NULL};
    struct sandbox_view view;
    struct err e;
    struct json_doc *doc AUTO(json_doc) = NULL;
    if (!api_id(r, 0, "sandbox", &ret->id, p) || !(doc = api_body(r, p, allowed))) {
        return false;
    }
    if (sandbox_look(api->sandboxes, &ret->id, &view, &e) != 0) {
        http_error_from(p, &e);
        return false;
    }
    ret->port = view.web_port;
    ret->path = "/";
    if (!api_opt_int(json_root(doc), "port", 1, 65535, &ret->port, p) ||
        !api_opt_text(json_root(doc), "path", TICKET_PATH_BYTES_MAX, false, r->arena, &ret->path,
                      p)) {
        return false;
    }
    if (!url_path_is_local(str_of(ret->path))) {
        http_error(p, "invalid_request",
                   "path must be a path of the app: one slash first, visible ASCII, no backslash, "
                   "no #, not below /.sandboxd/");
        return false;
    }
    return true;
}

void api_sandboxes_ticket(struct http_request *r, struct http_response *p, void *ctx)
{
    struct api *api = ctx;
    struct ticket_order order;
    struct err e;
    struct json_writer w;
    BUF_AUTO(ticket, 128);
    BUF_AUTO(url, 8192);
    if (!ticket_read(api, r, p, &order) || !ticket_allowed(api, p)) {
        return;
    }
    const char *session = r->from_console ? api_session_name(api, r) : "";
    if (r->from_console && !session[0]) {
        http_error(p, "unauthorized", "401: the session has just ended; sign in again");
        return;
    }
    if (sandbox_ticket(api->sandboxes, &order.id, (uint16_t)order.port, session, &ticket, &e) !=
        0) {
        http_error_from(p, &e);
        return;
    }
    buf_printf(&url, "%s/.sandboxd/enter?ticket=%s&to=",
               api_preview_url(api, r, &order.id, (uint16_t)order.port), ticket.ptr);
    url_path_escape(str_of(order.path), &url);
    http_add_header(p, "Cache-Control", "no-store");
    json_begin(&w, &p->body);
    json_object(&w, NULL);
    json_text(&w, "url", url.ptr);
    json_text(&w, "ticket", ticket.ptr);
    json_time(&w, "expires_at", clock_unix_ms() + TICKET_LIFE_MS);
    json_object_end(&w);
    api_json(p, 201);
}
