/*
 * Exchanging tickets.
 *
 * Must never send a browser to another host, or spend a ticket for anything but a page load: a page
 * of the app, or one that loads this address as an image, gets nothing. Main thread.
 */
#include "proxy/preview_enter.h"

#include "lib/mem.h"
#include "lib/url_path.h"
#include "proxy/limits.h"
#include "proxy/preview_pages.h"
#include "proxy/preview_passes.h"
#include "proxy/preview_place.h"

#define ENTER STR("/.sandboxd/enter")

static const char not_good[] = "This ticket is no longer good, or was used already.";

static struct {
    struct broker *broker;
    struct visit *waiting[LIMIT_ENTERING];
    uint64_t n[LIMIT_ENTERING];
    uint64_t next_n;
} enter;

void enter_init(struct broker *broker)
{
    enter.broker = broker;
}

bool enter_is_target(struct str target)
{
    ptrdiff_t query = str_find(target, '?');

    return str_eq(query < 0 ? target : str_cut(target, 0, (size_t)query), ENTER);
}

void enter_left(struct visit *v)
{
    for (unsigned i = 0; i < LIMIT_ENTERING; i++) {
        if (enter.waiting[i] == v) {
            enter.waiting[i] = NULL;
        }
    }
}

/* ---- answers ---- */

static void answer_not_good(struct exchange *x, const struct preview_host *host)
{
    BUF_AUTO(address, 1024);

    place_add_console(x, host, &address);
    buf_printf(&address, "/enter?sandbox=%s&port=%u&to=/", host->id.text, (unsigned)host->port);
    pages_sign_in(x, not_good, address.ptr, visit_wants_page(&x->request));
}

static void answer_away(struct exchange *x, const char *message)
{
    pages_refuse(x, 503, "unavailable", message, 2, visit_wants_page(&x->request));
}

static void answer_late(void *ctx)
{
    struct visit *v = ctx;
    struct exchange *x = v->x;

    visit_over(v);
    answer_away(x, "sandboxd did not answer in time; open the preview from the console again");
}

void enter_drain(struct visit *v)
{
    struct exchange *x = v->x;

    visit_over(v);
    answer_away(x, "the preview service is restarting; open the preview from the console again");
}

void enter_broker_down(void)
{
    for (unsigned i = 0; i < LIMIT_ENTERING; i++) {
        if (enter.waiting[i]) {
            struct exchange *x = enter.waiting[i]->x;

            visit_over(enter.waiting[i]);
            answer_away(x, "sandboxd is away; open the preview from the console again");
        }
    }
}

/* The path was checked when the request came. */
static void answer_pass(struct exchange *x, const struct preview_host *host,
                        const struct record *rec)
{
    struct str to = STR("");
    uint64_t max_age_s = 0;

    BUF_AUTO(path, LIMIT_RETURN_BYTES);
    BUF_AUTO(fields, LIMIT_RETURN_BYTES + 2048);

    buf_puts(&fields, "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n");
    if (!record_get_u64(rec, "max_age_s", UINT32_MAX, &max_age_s) ||
        !passes_add_cookie(record_get(rec, "pass"), (int64_t)max_age_s, host, &fields)) {
        answer_not_good(x, host);
        return;
    }
    struct str target = head_target(&x->request);
    struct str query = str_cut(target, ENTER.len + 1, target.len);

    if (!url_path_parameter(query, STR("to"), &to) || !url_path_unescape(to, &path)) {
        buf_reset(&path);
        buf_putc(&path, '/');
    }
    buf_puts(&fields, "Location: ");
    buf_add_str(&fields, buf_str(&path));
    buf_puts(&fields, "\r\n");
    front_answer(x, 303, buf_str(&fields), STR(""));
}

bool enter_take(const struct record *r)
{
    uint64_t n;

    if (!record_get_u64(r, "n", INT64_MAX, &n)) {
        return false;
    }
    for (unsigned i = 0; i < LIMIT_ENTERING; i++) {
        struct visit *v = enter.waiting[i];

        if (!v || enter.n[i] != n) {
            continue;
        }
        struct exchange *x = v->x;
        struct preview_host host = v->host;

        visit_over(v);
        answer_pass(x, &host, r);
        return true;
    }
    return n % 2 != 0;
}

/* ---- questions ---- */

static bool ask(struct visit *v, unsigned slot, struct str ticket)
{
    BUF_AUTO(out, 1024);

    /* Odd numbers, beside the even ones of preview_passes.c. */
    enter.n[slot] = ++enter.next_n * 2 + 1;

    struct record_writer w = record_begin(&out, "enter");

    record_addn(&w, "n", (int64_t)enter.n[slot]);
    record_adds(&w, "id", v->host.id.text);
    record_addn(&w, "port", v->host.port);
    record_add(&w, "ticket", ticket);
    (void)record_end(&w);
    return broker_send(enter.broker, &out);
}

/* A browser that says how it asks must say that it loads a page; other programs say nothing. */
static bool is_page_load(const struct head *h)
{
    struct str mode = head_get(h, "sec-fetch-mode");

    return str_is(head_method(h), "GET") && (!mode.ptr || str_is(mode, "navigate"));
}

static bool read_query(struct str query, struct str *ret_ticket)
{
    struct str to = STR("/");
    bool has_to = str_contains(query, STR("to="));

    BUF_AUTO(path, LIMIT_RETURN_BYTES);

    if (!url_path_parameter(query, STR("ticket"), ret_ticket) || ret_ticket->len == 0 ||
        ret_ticket->len > LIMIT_TICKET_BYTES ||
        (has_to && !url_path_parameter(query, STR("to"), &to))) {
        return false;
    }
    return url_path_unescape(to, &path) && url_path_is_local(buf_str(&path));
}

static unsigned free_slot(void)
{
    unsigned slot = 0;

    while (slot < LIMIT_ENTERING && enter.waiting[slot]) {
        slot++;
    }
    return slot;
}

void enter_begin(struct exchange *x, const struct preview_host *host)
{
    struct str target = head_target(&x->request);
    struct str ticket;
    unsigned slot = free_slot();

    if (!is_page_load(&x->request) ||
        !read_query(str_cut(target, ENTER.len + 1, target.len), &ticket)) {
        answer_not_good(x, host);
        return;
    }
    if (slot == LIMIT_ENTERING) {
        answer_away(x, "too many tickets are being looked at; try again in a moment");
        return;
    }
    struct visit *v = visit_new(x, host, NULL);

    v->state = VISIT_ENTERING;
    enter.waiting[slot] = v;
    if (!ask(v, slot, ticket)) {
        visit_over(v);
        answer_away(x, "sandboxd is away; open the preview from the console again");
        return;
    }
    loop_deadline_set(&v->deadline, LIMIT_ENTER_MS, answer_late, v);
}
