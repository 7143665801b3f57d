/*
 * Access to previews.
 *
 * Must never say whether a preview exists that may not be loaded, nor take longer for one than for
 * the other: what a request brings is looked at before the table is. Main thread.
 */
#include "proxy/preview_access.h"

#include "lib/url_path.h"
#include "proxy/limits.h"
#include "proxy/preview_pages.h"
#include "proxy/preview_passes.h"
#include "proxy/preview_passive.h"
#include "proxy/preview_place.h"
#include "proxy/preview_visit.h"

static bool is_get(const struct head *h)
{
    return str_is(head_method(h), "GET");
}

/* A page load by a person: it may come from anywhere, a link in a mail for example. */
static bool is_page_load(const struct head *h)
{
    return is_get(h) && str_is(head_get(h, "sec-fetch-mode"), "navigate");
}

/* Whether Origin names this very host. */
static bool is_own_origin(const struct head *h)
{
    struct str origin = head_get(h, "origin");
    struct str host = head_get(h, "host");
    const struct str schemes[] = {STR("http://"), STR("https://")};

    for (unsigned i = 0; i < 2; i++) {
        if (str_starts(origin, schemes[i]) &&
            str_eq_nocase(str_cut(origin, schemes[i].len, origin.len), host)) {
            return true;
        }
    }
    return false;
}

/* The page of another preview is a neighbour to the browser, and our cookie goes along with what it
 * sends here. What came from such a page counts as sent without: its forms, calls and sockets are
 * not the owner's. Browsers set these fields, pages cannot. */
static bool is_from_elsewhere(const struct head *h)
{
    struct str site = head_get(h, "sec-fetch-site");

    if (is_page_load(h)) {
        return false;
    }
    /* A WebSocket always names its origin; whether ws: and http: are one site is a browser's own
     * opinion. */
    if (site.ptr && !head_has_token(h, "upgrade", "websocket")) {
        return !str_is(site, "same-origin") && !str_is(site, "none");
    }
    return head_get(h, "origin").ptr && !is_own_origin(h);
}

void access_look(const struct exchange *x, const struct preview_host *host, struct access *ret)
{
    struct passes_found found;

    *ret = (struct access){0};
    if (!is_from_elsewhere(&x->request) && passes_find(&x->request, host, &found)) {
        *ret = (struct access){.has_pass = true, .epoch = found.epoch, .pass_number = found.number};
    }
}

static bool is_current(const struct route *r, const struct access *a)
{
    return a->has_pass && a->epoch == r->access_epoch;
}

bool access_is_allowed(const struct route *r, const struct access *a)
{
    return !r->is_private || is_current(r, a);
}

bool access_is_owner(const struct visit *v)
{
    return v->route && is_current(v->route, &v->access);
}

/* ---- refusing ---- */

/* Sec-Fetch is sent to hosts that a browser trusts: by TLS and on localhost. On a plain real name,
 * a page load is what asks for a page. */
static bool is_sent_to_console(const struct exchange *x, const struct preview_host *host)
{
    const struct head *h = &x->request;

    if (!is_get(h) || passive_kind_of(h) != PASSIVE_NOT) {
        return false;
    }
    if (!place_is_secure(host) && !head_get(h, "sec-fetch-mode").ptr) {
        struct str accept = head_get(h, "accept");

        return accept.ptr && str_contains(accept, STR("text/html"));
    }
    struct str dest = head_get(h, "sec-fetch-dest");

    /* A service worker that passes a page load on says "empty". */
    return is_page_load(h) && (str_is(dest, "document") || str_is(dest, "empty"));
}

/* The page of the console that fetches a ticket and comes back. No fragment: the browser keeps the
 * one that the person has. */
static void add_console_address(const struct exchange *x, const struct preview_host *host,
                                struct buf *out)
{
    struct str target = head_target(&x->request);
    bool is_kept = url_path_is_local(target) && target.len <= LIMIT_RETURN_BYTES;

    place_add_console(x, host, out);
    buf_printf(out, "/enter?sandbox=%s&port=%u&to=", host->id.text, (unsigned)host->port);
    url_path_escape(is_kept ? target : STR("/"), out);
}

void access_refuse(struct exchange *x, const struct preview_host *host)
{
    BUF_AUTO(address, 4 * LIMIT_RETURN_BYTES + 1024);
    BUF_AUTO(fields, 4 * LIMIT_RETURN_BYTES + 2048);

    add_console_address(x, host, &address);
    if (!is_sent_to_console(x, host)) {
        pages_sign_in(x, "This preview is private, or there is none at this address.", address.ptr,
                      visit_wants_page(&x->request));
        return;
    }
    buf_printf(&fields,
               "Cache-Control: no-store\r\nX-Robots-Tag: noindex\r\n"
               "Referrer-Policy: no-referrer\r\nLocation: %s\r\n",
               address.ptr);
    front_answer(x, 303, buf_str(&fields), STR(""));
}

/* ---- answers ---- */

/* A neighbour's page must not put a private preview into a frame of its own and have it clicked. */
static void add_framing(const struct visit *v, struct buf *fields)
{
    buf_puts(fields, "Content-Security-Policy: frame-ancestors 'self' ");
    place_add_console(v->x, &v->host, fields);
    buf_puts(fields, " http://console.localhost:*\r\n");
}

void access_add_fields(const struct visit *v, struct buf *fields)
{
    if (v->access.has_pass) {
        passes_add_renewed(v->access.pass_number, &v->host, fields);
    }
    if (v->route && v->route->is_private) {
        add_framing(v, fields);
    }
}

/* ---- the end of access ---- */

static void end_visit(struct visit *v)
{
    struct exchange *x = v->x;
    struct preview_host host = v->host;

    if (v->state == VISIT_SWITCHED) {
        relay_revoke(v);
        return;
    }
    visit_over(v);
    if (x->head_written) {
        front_break(x);
    } else {
        access_refuse(x, &host);
    }
}

void access_route_changed(struct route *r)
{
    for (struct visit *v = r->wake.visits, *next; v; v = next) {
        next = v->next;
        if (v->state != VISIT_ENTERING && !access_is_allowed(r, &v->access)) {
            end_visit(v);
        }
    }
}
