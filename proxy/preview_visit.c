/*
 * Which app a request is for and whether it may go there; the life of a visit.
 *
 * Must never wake anything before access was checked, and tell nobody whether an unknown name is
 * free or forbidden. Main thread.
 */
#include "proxy/preview_visit.h"

#include <stdlib.h>

#include "lib/mem.h"
#include "lib/url_path.h"
#include "proxy/limits.h"
#include "proxy/preview_access.h"
#include "proxy/preview_activity.h"
#include "proxy/preview_enter.h"
#include "proxy/preview_pages.h"
#include "proxy/preview_passes.h"
#include "proxy/preview_stopping.h"

#define RESERVED STR("/.sandboxd/")

static struct {
    struct visit *first; /* all of them */
    unsigned count;
    bool draining;
} visits;

void visits_init(struct broker *broker)
{
    activity_init(broker);
    stopping_init(broker);
    wake_init(broker);
    passes_init(broker);
    enter_init(broker);
}

unsigned visits_count(void)
{
    return visits.count;
}

bool visits_are_draining(void)
{
    return visits.draining;
}

/* ---- life ---- */

static void visit_freed(void *p)
{
    struct visit *v = p;

    head_done(&v->answer);
    free(v);
}

static void link_all(struct visit *v)
{
    v->all_next = visits.first;
    if (visits.first) {
        visits.first->all_prev = v;
    }
    visits.first = v;
    visits.count++;
}

static void unlink_all(struct visit *v)
{
    if (v->all_prev) {
        v->all_prev->all_next = v->all_next;
    } else {
        visits.first = v->all_next;
    }
    if (v->all_next) {
        v->all_next->all_prev = v->all_prev;
    }
    visits.count--;
}

struct visit *visit_new(struct exchange *x, const struct preview_host *host, struct route *r)
{
    struct visit *v = mem_alloc(sizeof(*v));

    v->x = x;
    x->role_data = v;
    v->host = *host;
    v->route = r;
    if (r) {
        v->next = r->wake.visits;
        if (v->next) {
            v->next->prev = v;
        }
        r->wake.visits = v;
    }
    head_init(&v->answer);
    link_all(v);
    return v;
}

void visit_unroute(struct visit *v)
{
    struct route *r = v->route;

    if (!r) {
        return;
    }
    wake_left(v);
    if (v->is_counted) {
        v->is_counted = false;
        activity_close(r);
    }
    if (v->prev) {
        v->prev->next = v->next;
    } else {
        r->wake.visits = v->next;
    }
    if (v->next) {
        v->next->prev = v->prev;
    }
    v->next = v->prev = NULL;
    v->route = NULL;
    stopping_visit_left(r);
}

void visit_over(struct visit *v)
{
    if (v->state == VISIT_OVER) {
        return;
    }
    visit_unroute(v);
    if (v->state == VISIT_ENTERING) {
        enter_left(v);
    }
    v->state = VISIT_OVER;
    loop_deadline_clear(&v->deadline);
    http_parser_stop(&v->parser);
    stream_close(v->stream);
    v->stream = NULL;
    v->x->role_data = NULL;
    unlink_all(v);
    loop_later(&v->later, visit_freed, v);
}

void visits_each_waiting(void (*fn)(struct visit *v))
{
    for (struct visit *v = visits.first; v; v = v->all_next) {
        if (v->state == VISIT_WAITING) {
            fn(v);
        }
    }
}

/* ---- may it ---- */

bool visit_wants_page(const struct head *h)
{
    struct str dest = head_get(h, "sec-fetch-dest");

    if (dest.ptr) {
        return str_is(head_get(h, "sec-fetch-mode"), "navigate") || str_is(dest, "document") ||
               str_is(dest, "iframe") || str_is(dest, "frame");
    }
    struct str accept = head_get(h, "accept");

    return accept.ptr && str_contains(accept, STR("text/html"));
}

/* A form that was sent is no page load: it must reach the app. */
static bool is_navigation(const struct head *h)
{
    return str_is(head_method(h), "GET") && visit_wants_page(h);
}

static bool refuse(struct exchange *x, unsigned status, const char *code, const char *message)
{
    pages_refuse(x, status, code, message, 0, visit_wants_page(&x->request));
    return false;
}

static bool is_plain(struct exchange *x)
{
    const struct head *h = &x->request;
    struct str target = head_target(h);

    if (str_is(head_method(h), "CONNECT")) {
        return refuse(x, 405, "method_not_allowed", "CONNECT is not served here.");
    }
    if (target.len == 0 ||
        (target.ptr[0] != '/' && !(str_is(target, "*") && str_is(head_method(h), "OPTIONS")))) {
        return refuse(x, 400, "invalid_request", "The request target must be a path.");
    }
    if (head_count(h, "host") != 1) {
        return refuse(x, 400, "invalid_request", "Exactly one Host is needed.");
    }
    if (head_count_token(h, "cdn-loop", "sandboxd") >= LIMIT_HOPS) {
        return refuse(x, 508, "loop_detected",
                      "This request came through here several times already: an app asks itself.");
    }
    return true;
}

/* Unknown, forbidden and undeclared look the same. */
static struct route *find_route(struct exchange *x, const struct preview_host *host,
                                struct access *ret_access)
{
    struct route *r;

    access_look(x, host, ret_access);
    r = routes_find(&host->id);
    if (!r && !routes_are_known()) {
        pages_refuse(x, 503, "unavailable",
                     "The preview service has just started and does not know its apps yet.", 1,
                     visit_wants_page(&x->request));
        return NULL;
    }
    if (!r || !access_is_allowed(r, ret_access) || !route_has_port(&r->ports, host->port)) {
        access_refuse(x, host);
        return NULL;
    }
    return r;
}

static bool find_host(struct exchange *x, struct preview_host *ret)
{
    struct str domain = str_of(routes_settings_get()->domain);

    return preview_host_parse(head_get(&x->request, "host"), domain, ret) ||
           refuse(x, 404, "not_found", "There is no such preview.");
}

/* ---- our own path ---- */

static void answer_retry(struct exchange *x, struct route *r, struct str to)
{
    BUF_AUTO(fields, LIMIT_HEAD_BYTES + 256);

    if (loop_now_ms() >= r->wake.failed_until_ms) {
        wake_forget_failure(r);
    }
    buf_puts(&fields, "Cache-Control: no-store\r\nLocation: ");
    buf_add_str(&fields, url_path_is_local(to) ? to : STR("/"));
    buf_puts(&fields, "\r\n");
    front_answer(x, 303, buf_str(&fields), STR(""));
}

static void answer_reserved(struct exchange *x, struct route *r, const struct preview_host *host)
{
    struct str target = head_target(&x->request);
    struct str method = head_method(&x->request);
    const struct str retry = STR("/.sandboxd/retry?to=");

    if ((str_eq(target, STR("/.sandboxd/wake")) || str_starts(target, STR("/.sandboxd/wake?"))) &&
        (str_is(method, "GET") || x->is_head)) {
        wake_answer_poll(x, r, host);
    } else if (str_starts(target, retry) && str_is(method, "POST")) {
        answer_retry(x, r, str_cut(target, retry.len, target.len));
    } else {
        (void)refuse(x, 404, "not_found", "There is nothing of ours at this path.");
    }
}

/* ---- events of the front ---- */

static void begin(struct exchange *x)
{
    struct preview_host host;
    struct access access;
    struct route *r;

    if (!is_plain(x) || !find_host(x, &host)) {
        return;
    }
    if (enter_is_target(head_target(&x->request))) {
        enter_begin(x, &host);
        return;
    }
    if (!(r = find_route(x, &host, &access))) {
        return;
    }
    if (str_starts(head_target(&x->request), RESERVED)) {
        answer_reserved(x, r, &host);
        return;
    }
    struct visit *v = visit_new(x, &host, r);

    v->access = access;
    v->passive = passive_kind_of(&x->request);
    v->is_navigation = is_navigation(&x->request);
    v->wants_page = visit_wants_page(&x->request);
    if (v->passive == PASSIVE_NOT) {
        v->is_counted = true;
        activity_open(r);
    }
    wake_try(v);
}

static void body(struct exchange *x)
{
    if (x->role_data) {
        relay_body(x->role_data);
    }
}

static void drained(struct exchange *x)
{
    if (x->role_data) {
        relay_client_drained(x->role_data);
    }
}

/* A client that leaves ends its stream at once; those who wait with it are not disturbed. */
static void gone(struct exchange *x)
{
    if (x->role_data) {
        visit_over(x->role_data);
    }
}

static void raw(struct exchange *x, struct str bytes)
{
    if (x->role_data) {
        relay_raw(x->role_data, bytes);
    }
}

static void raw_ended(struct exchange *x)
{
    if (x->role_data) {
        relay_raw_ended(x->role_data);
    }
}

const struct front_role preview_role = {.begin = begin,
                                        .body = body,
                                        .drained = drained,
                                        .gone = gone,
                                        .raw = raw,
                                        .raw_ended = raw_ended};

/* ---- the end of the service ---- */

void visits_drain(void)
{
    visits.draining = true;
    front_drain_all();
    for (struct visit *v = visits.first, *next; v; v = next) {
        next = v->all_next;
        if (v->state == VISIT_WAITING) {
            wake_left(v);
            wake_hold(v, false);
        } else if (v->state == VISIT_ENTERING) {
            enter_drain(v);
        } else if (v->state == VISIT_SWITCHED) {
            relay_restart(v);
        }
    }
}

/* Without a word of an answer the edge would take a GET for lost and send it once more. */
static void visit_cut(struct visit *v)
{
    struct exchange *x = v->x;
    bool is_page = v->wants_page;
    bool is_unsent = v->state == VISIT_OPENING || v->state == VISIT_NEW;

    visit_over(v);
    if (x->head_written) {
        front_break(x);
    } else if (is_unsent) {
        pages_refuse(x, 503, "restarting", "the preview service is restarting", 1, is_page);
    } else {
        pages_refuse(x, 502, "restarting",
                     "The preview service was restarted before the app had answered. The app may "
                     "have done what was asked.",
                     0, is_page);
    }
}

unsigned visits_cut(void)
{
    unsigned count = 0;

    while (visits.first) {
        visit_cut(visits.first);
        count++;
    }
    return count;
}
