/*
 * What the credentials proxy asks and tells of spend. The broker's thread; it waits for nothing but
 * one write when a task is refused for good.
 */
#include <stdio.h>

#include "control/store/events.h"
#include "control/vault/spend.h"
#include "control/vault/vault_private.h"
#include "lib/json_write.h"
#include "lib/log.h"

#define SPEND_FIGURE_MAX INT64_C(1000000000)

static int64_t broker_figure(const struct record *r, const char *key, int64_t max, int64_t fallback)
{
    uint64_t value = 0;
    return record_get_u64(r, key, (uint64_t)max, &value) ? (int64_t)value : fallback;
}

static void broker_event(struct vault *v, const struct spend_request *r,
                         const struct spend_answer *a)
{
    BUF_AUTO(payload, 4096);
    struct json_writer w;
    json_begin(&w, &payload);
    json_object(&w, NULL);
    json_text(&w, "budget", a->scope);
    json_text(&w, "reason", spend_verdict_name(a->verdict));
    json_text(&w, "message", a->message);
    json_object_end(&w);
    events_add(v->db, &(struct event_row){.kind = "budget.reached",
                                          .severity = "warning",
                                          .app_id = a->app.text,
                                          .task_id = r->task.text,
                                          .payload = payload.ptr});
}

/* It must be known before the agent hears of it: its end may come at once, and our end before. */
static void broker_refuse_for_good(struct vault *v, const struct spend_request *r,
                                   const struct spend_answer *a)
{
    struct err e;
    if (task_refusal_put(v->db, &r->task, spend_verdict_name(a->verdict), a->message, &e) != 0) {
        log_error("a refusal was not stored", "task_id", r->task.text, "error", e.msg);
    }
    broker_event(v, r, a);
    if (v->refused) {
        v->refused(v->refused_ctx, &r->task);
    }
}

static void broker_add_left(struct record_writer *w, const char *key, int64_t value)
{
    if (value >= 0) {
        record_addn(w, key, value);
    }
}

static int broker_answer(struct vault_connection *c, const struct record *r,
                         const struct spend_answer *a)
{
    bool admitted = a->verdict == SPEND_ADMITTED;
    struct record_writer w = record_begin(&c->out, admitted ? "admitted" : "refused");
    record_add(&w, "n", str_cut(record_get(r, "n"), 0, 20));
    if (admitted) {
        broker_add_left(&w, "left_microusd", a->left_microusd);
        broker_add_left(&w, "left_tokens", a->left_tokens);
        broker_add_left(&w, "input_price", a->input_price);
        broker_add_left(&w, "output_price", a->output_price);
    } else {
        record_adds(&w, "code", spend_verdict_name(a->verdict));
        record_adds(&w, "message", a->message);
        record_addn(&w, "retry_after_s", a->retry_after_s);
    }
    return record_end(&w) ? 0 : -1;
}

int broker_admit(struct vault *v, struct vault_connection *c, const struct record *r)
{
    struct spend_answer answer;
    struct spend_request request = {.n = broker_figure(r, "n", INT64_MAX, -1),
                                    .provider = str_cut(record_get(r, "provider"), 0, 64),
                                    .model = str_cut(record_get(r, "model"), 0, 200),
                                    .input_bytes = broker_figure(r, "input_bytes", INT64_MAX, 0),
                                    .max_tokens =
                                        broker_figure(r, "max_tokens", SPEND_FIGURE_MAX, 0),
                                    .running = record_get_bool(r, "running", false)};
    if (request.n < 0 || !ulid_parse(record_get(r, "task_id"), &request.task)) {
        return -1;
    }
    spend_admit(v, &request, &answer);
    if (answer.first) {
        broker_refuse_for_good(v, &request, &answer);
    }
    return broker_answer(c, r, &answer);
}

int broker_usage(struct vault *v, struct vault_connection *c, const struct record *r)
{
    struct spend_done done = {
        .n = broker_figure(r, "n", INT64_MAX, -1),
        .settled_below = broker_figure(r, "settled_below", INT64_MAX, 0),
        .provider = str_cut(record_get(r, "provider"), 0, 63),
        .model = str_cut(record_get(r, "model"), 0, 200),
        .status = broker_figure(r, "status", 999, 0),
        .tokens = {.input = broker_figure(r, "input", SPEND_FIGURE_MAX, -1),
                   .output = broker_figure(r, "output", SPEND_FIGURE_MAX, -1),
                   .cached_read = broker_figure(r, "cached_read", SPEND_FIGURE_MAX, -1),
                   .cached_write = broker_figure(r, "cached_write", SPEND_FIGURE_MAX, -1)},
        .cost_microusd = broker_figure(r, "cost_microusd", BUDGET_LIMIT_MAX, -1)};
    if (done.n < 0 || !ulid_parse(record_get(r, "task_id"), &done.task)) {
        return -1;
    }
    if (done.status == 401) {
        char provider[64];
        (void)snprintf(provider, sizeof(provider), "%.*s", STR_FMT(done.provider));
        renewal_doubt(v, provider);
    }
    /* A full queue: the proxy keeps what is not noted, and tells it when it is back. */
    return spend_settle(v, str_of(c->boot_id), &done, c->serial) ? 0 : -1;
}

void broker_tell_noted(struct vault *v)
{
    uint64_t serial = 0;
    int64_t n = 0;
    while (spend_next_noted(v, &serial, &n)) {
        struct vault_connection *c = broker_find(v, serial);
        if (!c) {
            continue; /* it asks again with its next connection */
        }
        struct record_writer w = record_begin(&c->out, "noted");
        record_addn(&w, "n", n);
        if (!record_end(&w)) {
            broker_drop(v, c);
        }
    }
}
