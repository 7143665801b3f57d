/*
 * Waiting for an app: one wake per sandbox however many wait, one outcome for all of them.
 *
 * Must never send a request on twice, read a body that waits, or ask for a wake before access was
 * checked (preview_visit.c does that). Main thread.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/log.h"
#include "lib/mem.h"
#include "proxy/limits.h"
#include "proxy/preview_access.h"
#include "proxy/preview_limit.h"
#include "proxy/preview_pages.h"
#include "proxy/preview_stopping.h"
#include "proxy/preview_visit.h"

/* A failure page stays the answer to page loads for so long; the retry button ends it. */
#define FAILURE_PAGE_MS 10000

static struct {
    struct broker *broker;
    unsigned waiting;
    uint64_t next_n;
} wakes = {.next_n = 1};

static void check(struct route *r);

void wake_init(struct broker *broker)
{
    wakes.broker = broker;
}

/* How long a request for it is held. */
static int64_t budget_ms_of(const struct route *r)
{
    int64_t usual_ms =
        r->usual_ms < LIMIT_WAKE_BUDGET_MAX_MS ? r->usual_ms : LIMIT_WAKE_BUDGET_MAX_MS;
    int64_t budget_ms = usual_ms * 7 / 2;

    if (budget_ms < LIMIT_WAKE_BUDGET_MS) {
        return LIMIT_WAKE_BUDGET_MS;
    }
    return budget_ms < LIMIT_WAKE_BUDGET_MAX_MS ? budget_ms : LIMIT_WAKE_BUDGET_MAX_MS;
}

/* ---- asking sandboxd ---- */

/* One that was never answered counts as lost after the time anybody waits. */
static bool is_under_way(const struct route *r)
{
    const struct route_wake *w = &r->wake;

    return w->sent && (r->state == ROUTE_STARTING || loop_now_ms() - w->began_ms < budget_ms_of(r));
}

static void ask_wake(struct route *r, uint16_t port)
{
    BUF_AUTO(out, 256);
    int64_t now_ms = loop_now_ms();
    struct route_wake *w = &r->wake;

    if (r->state == ROUTE_RUNNING || is_under_way(r)) {
        return;
    }
    w->began_ms = now_ms;

    struct record_writer rec = record_begin(&out, "wake");

    record_adds(&rec, "id", r->entry.id.text);
    record_addn(&rec, "port", port);
    (void)record_end(&rec);
    w->sent = broker_send(wakes.broker, &out);
}

static void ask_status(struct route *r, uint16_t port)
{
    BUF_AUTO(out, 256);

    int64_t now_ms = loop_now_ms();

    /* One question at a time; an answer that never came is asked for again. */
    if (now_ms - r->wake.status_asked_ms <
        (r->wake.status_n ? LIMIT_WAKE_BUDGET_MS : LIMIT_WAKE_RETRY_MS)) {
        return;
    }
    r->wake.status_asked_ms = now_ms;

    struct record_writer rec = record_begin(&out, "status");

    record_addn(&rec, "n", (int64_t)wakes.next_n);
    record_adds(&rec, "id", r->entry.id.text);
    record_addn(&rec, "port", port);
    (void)record_end(&rec);
    if (broker_send(wakes.broker, &out)) {
        r->wake.status_n = wakes.next_n++;
    }
}

/* ---- answers ---- */

static int64_t elapsed_ms(const struct route *r)
{
    return r->wake.began_ms > 0 ? loop_now_ms() - r->wake.began_ms : 0;
}

static void answer_failed(struct visit *v, const char *message, const char *lines,
                          int64_t retry_after_s)
{
    bool is_owner = v->host.is_localhost || access_is_owner(v);
    const struct pages_failure failure = {
        .message = message ? message : "The app could not be started.",
        .lines = is_owner ? lines : NULL,
        .retry_after_s = retry_after_s,
    };
    struct exchange *x = v->x;
    bool is_page = v->wants_page;

    visit_over(v);
    pages_failed(x, &failure, is_page);
}

static void answer_late(struct visit *v)
{
    char text[PAGES_PHASE_BYTES];
    char message[512];
    struct exchange *x = v->x;
    const struct route *r = v->route;
    const char *why =
        r->wake.status_message ? r->wake.status_message : pages_phase(r, v->host.port, text);
    const char *phase = r->phase[0] ? r->phase : route_state_name(r->state);

    if (!broker_is_up(wakes.broker) && r->state != ROUTE_RUNNING) {
        why = "the service that starts apps is away";
    }
    (void)snprintf(message, sizeof message, "the app did not answer in time: %.400s", why);
    bool is_page = v->wants_page;

    visit_over(v);
    if (is_page) {
        pages_refuse(x, 503, "waking", message, 5, true);
    } else {
        pages_late(x, phase, message, 5);
    }
}

static void answer_refuse(struct visit *v, unsigned status, const char *code, const char *message,
                          int64_t retry_after_s)
{
    struct exchange *x = v->x;
    bool is_page = v->wants_page;

    visit_over(v);
    pages_refuse(x, status, code, message, retry_after_s, is_page);
}

static void answer_passive(struct visit *v)
{
    struct exchange *x = v->x;

    if (v->passive == PASSIVE_FAVICON) {
        visit_over(v);
        front_head(x, 204, STR("No Content"), STR("Cache-Control: no-store\r\n"), HTTP_NO_BODY, 0);
        front_end(x, STR(""));
        return;
    }
    answer_refuse(v, 503, "asleep", "the app is asleep, and this kind of request does not wake it",
                  3600);
}

/* ---- waiting ---- */

static void waited_enough(void *ctx)
{
    struct visit *v = ctx;
    struct exchange *x = v->x;
    struct preview_host host = v->host;
    struct route *r = v->route;
    int64_t elapsed;

    if (!v->is_navigation) {
        answer_late(v);
        return;
    }
    elapsed = elapsed_ms(r);
    if (elapsed < loop_now_ms() - x->began_ms) {
        elapsed = loop_now_ms() - x->began_ms;
    }
    visit_over(v);
    pages_warm_up(x, r, &host, elapsed);
}

void wake_left(struct visit *v)
{
    if (v->state == VISIT_WAITING) {
        v->state = VISIT_NEW;
        v->route->wake.waiting--;
        wakes.waiting--;
        loop_deadline_clear(&v->deadline);
    }
}

static void retry(void *ctx)
{
    struct route *r = ctx;

    for (struct visit *v = r->wake.visits; v; v = v->next) {
        v->was_refused = false;
    }
    check(r);
}

static bool answer_known_failure(struct visit *v)
{
    const struct route_wake *w = &v->route->wake;
    int64_t until_ms = v->is_navigation ? w->failed_page_until_ms : w->failed_until_ms;

    if (loop_now_ms() >= until_ms) {
        return false;
    }
    char *message AUTOFREE = w->message ? mem_strdup(w->message) : NULL;
    char *lines AUTOFREE = w->lines ? mem_strdup(w->lines) : NULL;

    answer_failed(v, message, lines, w->retry_after_s);
    return true;
}

static void wait_begin(struct visit *v, int64_t delay_ms)
{
    struct route *r = v->route;

    v->state = VISIT_WAITING;
    v->was_held = true;
    r->wake.waiting++;
    wakes.waiting++;
    loop_deadline_set(&v->deadline, delay_ms, waited_enough, v);
    stopping_visit_left(r);
    if (r->state != ROUTE_RUNNING) {
        ask_wake(r, v->host.port);
        return;
    }
    if (v->was_refused) {
        ask_status(r, v->host.port);
        if (!loop_deadline_is_set(&r->wake.retry)) {
            loop_deadline_set(&r->wake.retry, LIMIT_WAKE_RETRY_MS, retry, r);
        }
    }
}

/* Whether it may cause a start; joining one that is under way is free, and so is keeping one from
 * being stopped. False: it was answered. */
static bool may_wake(struct visit *v)
{
    const struct route *r = v->route;
    int64_t retry_after_s = 0;
    char message[160];

    if (r->state == ROUTE_RUNNING || r->state == ROUTE_STARTING || r->ask > 0 || is_under_way(r) ||
        limit_take(&v->x->request, loop_now_ms(), &retry_after_s)) {
        return true;
    }
    (void)snprintf(message, sizeof message,
                   "Too many sleeping apps were woken from your address or altogether within a "
                   "minute; try again in %lld s.",
                   (long long)retry_after_s);
    answer_refuse(v, 429, "too_many_requests", message, retry_after_s);
    return false;
}

void wake_hold(struct visit *v, bool refused)
{
    struct route *r = v->route;
    int64_t left_ms;

    v->state = VISIT_NEW;
    v->was_refused = refused;
    if (!r) {
        answer_refuse(v, 404, "not_found", "There is no such preview.", 0);
        return;
    }
    left_ms =
        v->x->began_ms + (v->is_navigation ? LIMIT_WAKE_PAGE_MS : budget_ms_of(r)) - loop_now_ms();
    if (visits_are_draining() && v->is_navigation) {
        /* Its page asks again, and the edge keeps that question until we are back. */
        waited_enough(v);
    } else if (visits_are_draining()) {
        answer_refuse(v, 503, "restarting", "the preview service is restarting", 1);
    } else if (v->passive != PASSIVE_NOT) {
        answer_passive(v);
    } else if (answer_known_failure(v)) {
        return;
    } else if (r->wake.waiting >= LIMIT_WAITERS_OF_ONE || wakes.waiting >= LIMIT_WAITERS) {
        answer_refuse(v, 503, "busy", "too many requests wait for this app", 5);
    } else if (left_ms <= 0) {
        waited_enough(v);
    } else if (may_wake(v)) {
        wait_begin(v, left_ms);
    }
}

void wake_try(struct visit *v)
{
    const struct route *r = v->route;

    if (r->state == ROUTE_RUNNING && gate_is_standing(&r->entry.id)) {
        relay_open(v);
    } else {
        wake_hold(v, false);
    }
}

/* ---- what changes ---- */

static bool is_probed(const struct route *r, uint16_t port)
{
    for (const struct visit *v = r->wake.visits; v; v = v->next) {
        if (v->state == VISIT_OPENING && v->host.port == port) {
            return true;
        }
    }
    return false;
}

/* Sends on who may go: everybody when the port is known to answer, else one who tries it out for
 * all. */
static void check(struct route *r)
{
    if (r->state != ROUTE_RUNNING || !gate_is_standing(&r->entry.id)) {
        return;
    }
    for (struct visit *v = r->wake.visits, *next; v; v = next) {
        uint16_t port = v->host.port;

        next = v->next;
        if (v->state != VISIT_WAITING ||
            (!route_has_port(&r->open, port) && (v->was_refused || is_probed(r, port)))) {
            continue;
        }
        wake_left(v);
        /* It left without our reading it: its request must not reach the app. */
        if (front_client_gone(v->x)) {
            struct exchange *x = v->x;

            visit_over(v);
            front_break(x);
            continue;
        }
        relay_open(v);
    }
    if (r->wake.waiting > 0 && !loop_deadline_is_set(&r->wake.retry)) {
        loop_deadline_set(&r->wake.retry, LIMIT_WAKE_RETRY_MS, retry, r);
    }
}

static void check_now(void *p)
{
    struct route *r = p;

    r->wake.check_queued = false;
    check(r);
}

static void check_soon(struct route *r)
{
    if (!r->wake.check_queued) {
        r->wake.check_queued = true;
        loop_later(&r->wake.check_later, check_now, r);
    }
}

void wake_port_answers(struct route *r, uint16_t port)
{
    r->wake.began_ms = 0;
    r->wake.sent = false;
    wake_forget_failure(r);
    if (r->wake.waiting == 0) {
        return;
    }
    if (!route_has_port(&r->open, port) && r->open.count < LIMIT_ROUTE_PORTS) {
        r->open.list[r->open.count++] = port;
    }
    check_soon(r);
}

static void forget_status(struct route_wake *w)
{
    free(w->status_message);
    free(w->status_lines);
    w->status_message = w->status_lines = NULL;
    w->status_failed = false;
    w->status_n = 0;
    w->status_asked_ms = 0;
}

static const struct visit *first_waiting(const struct route *r)
{
    const struct visit *v = r->wake.visits;

    while (v && v->state != VISIT_WAITING) {
        v = v->next;
    }
    return v;
}

void wake_route_changed(struct route *r)
{
    const struct visit *v = first_waiting(r);

    gate_forget_idle(&r->entry.id, r->generation);
    if (r->state == ROUTE_RUNNING) {
        r->wake.sent = false;
    } else {
        forget_status(&r->wake);
    }
    if (v && r->state != ROUTE_RUNNING) {
        ask_wake(r, v->host.port);
    }
    if (v) {
        check_soon(r);
    }
}

void wake_standing(const struct ulid *id)
{
    struct route *r = routes_find(id);

    if (r && r->wake.waiting > 0) {
        check_soon(r);
    }
}

static void ask_again(struct visit *v)
{
    struct route *r = v->route;

    if (r->state != ROUTE_RUNNING && !r->wake.sent) {
        int64_t began_ms = r->wake.began_ms;

        ask_wake(r, v->host.port);
        r->wake.began_ms = began_ms > 0 ? began_ms : r->wake.began_ms;
    }
}

/* Whoever still waits is asked for again; nothing is known to be under way. */
void wake_broker_up(void)
{
    visits_each_waiting(ask_again);
}

static void free_texts(struct route_wake *w)
{
    free(w->message);
    free(w->lines);
    w->message = w->lines = NULL;
}

void wake_forget_failure(struct route *r)
{
    r->wake.failed_until_ms = r->wake.failed_page_until_ms = 0;
    free_texts(&r->wake);
}

void wake_route_gone(struct route *r)
{
    struct route_wake *w = &r->wake;

    for (struct visit *v = w->visits, *next; v; v = next) {
        next = v->next;
        if (v->state == VISIT_WAITING) {
            answer_refuse(v, 404, "not_found", "There is no such preview.", 0);
        } else {
            visit_unroute(v);
        }
    }
    loop_deadline_clear(&w->retry);
    free_texts(w);
    forget_status(w);
}

/* ---- records ---- */

static char *text_of(const struct record *rec, const char *key)
{
    struct str text = record_get(rec, key);

    return text.len == 0
               ? NULL
               : mem_dup(text.ptr, text.len < LIMIT_TEXT_BYTES ? text.len : LIMIT_TEXT_BYTES);
}

/* The texts are copied: an answer may start the next request of its connection, and that may end
 * the failure. */
static void fail_all(struct route *r, const char *failure, const char *last_lines,
                     int64_t retry_after_s)
{
    char *message AUTOFREE = failure ? mem_strdup(failure) : NULL;
    char *lines AUTOFREE = last_lines ? mem_strdup(last_lines) : NULL;

    for (struct visit *v = r->wake.visits, *next; v; v = next) {
        next = v->next;
        if (v->state == VISIT_WAITING) {
            answer_failed(v, message, lines, retry_after_s);
        }
    }
}

static void take_wake_failed(struct route *r, const struct record *rec)
{
    struct route_wake *w = &r->wake;
    int64_t now_ms = loop_now_ms();
    uint64_t seconds;
    int64_t memory_ms;

    free_texts(w);
    w->message = text_of(rec, "message");
    w->lines = text_of(rec, "lines");
    w->retry_after_s = record_get_u64(rec, "retry_after_s", 3600, &seconds) ? (int64_t)seconds : 0;
    memory_ms = w->retry_after_s * 1000 > LIMIT_WAKE_MEMORY_MS ? w->retry_after_s * 1000
                                                               : LIMIT_WAKE_MEMORY_MS;
    w->failed_until_ms = now_ms + memory_ms;
    w->failed_page_until_ms = now_ms + (memory_ms > FAILURE_PAGE_MS ? memory_ms : FAILURE_PAGE_MS);
    w->sent = false;
    w->began_ms = 0;
    fail_all(r, w->message, w->lines, w->retry_after_s);
}

static void take_status(struct route *r, const struct record *rec)
{
    struct route_wake *w = &r->wake;
    uint64_t n;

    if (!record_get_u64(rec, "n", INT64_MAX, &n) || n != w->status_n) {
        return;
    }
    w->status_n = 0;
    free(w->status_message);
    free(w->status_lines);
    w->status_message = text_of(rec, "message");
    w->status_lines = text_of(rec, "lines");
    w->status_failed = str_is(record_get(rec, "state"), "failed");
    if (w->status_failed) {
        fail_all(r, w->status_message, w->status_lines, 0);
    }
}

bool wake_take(const struct record *rec)
{
    bool is_failed = record_is(rec, "wake_failed");
    struct ulid id;
    struct route *r;

    if (!is_failed && !record_is(rec, "status")) {
        return false;
    }
    if (!ulid_parse(record_get(rec, "id"), &id) || !(r = routes_find(&id))) {
        return true;
    }
    if (is_failed) {
        take_wake_failed(r, rec);
    } else {
        take_status(r, rec);
    }
    return true;
}

/* ---- the page's question ---- */

static const char *poll_state(const struct route *r, uint16_t port)
{
    const struct route_wake *w = &r->wake;

    if (loop_now_ms() < w->failed_page_until_ms) {
        return "failed";
    }
    if (r->state != ROUTE_RUNNING) {
        return r->state == ROUTE_STARTING || w->sent ? "waking" : "asleep";
    }
    if (gate_is_standing(&r->entry.id) && route_has_port(&r->open, port)) {
        return "ready";
    }
    return w->status_failed ? "failed" : "waking";
}

/* A container that runs without its port open is asked about, so that the page can say why. */
void wake_answer_poll(struct exchange *x, struct route *r, const struct preview_host *host)
{
    const char *state = poll_state(r, host->port);

    if (r->state == ROUTE_RUNNING && str_is(str_of(state), "waking")) {
        ask_status(r, host->port);
    }
    pages_poll(x, state, r, host, elapsed_ms(r));
}
