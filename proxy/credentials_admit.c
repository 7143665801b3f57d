/*
 * Questions to sandboxd about what a request may spend.
 *
 * Must never let a request through that nobody answered for: while sandboxd is away its last words
 * count, and without any the request waits. Main thread.
 */
#include "proxy/credentials_admit.h"

#include <stdio.h>

#include "lib/mem.h"
#include "proxy/limits.h"

static struct {
    struct broker *broker;
    struct admission *first;
    uint64_t next_n;
} admissions = {.next_n = 1};

void admissions_init(struct broker *broker)
{
    admissions.broker = broker;
}

/* ---- the list ---- */

static void link_it(struct admission *a)
{
    if (a->is_linked) {
        return;
    }
    a->is_linked = true;
    a->n = admissions.next_n++;
    a->prev = NULL;
    a->next = admissions.first;
    if (a->next) {
        a->next->prev = a;
    }
    admissions.first = a;
}

static void unlink_it(struct admission *a)
{
    loop_deadline_clear(&a->deadline);
    if (!a->is_linked) {
        return;
    }
    a->is_linked = false;
    *(a->prev ? &a->prev->next : &admissions.first) = a->next;
    if (a->next) {
        a->next->prev = a->prev;
    }
}

static struct admission *find(const struct record *r)
{
    struct admission *a = admissions.first;
    uint64_t n;

    if (!record_get_u64(r, "n", INT64_MAX, &n)) {
        return NULL;
    }
    while (a && a->n != n) {
        a = a->next;
    }
    return a;
}

/* ---- asking ---- */

static struct spend_request request_of(const struct admission *a)
{
    return (struct spend_request){.provider = a->provider,
                                  .model = a->model,
                                  .input_bytes = a->input_bytes,
                                  .max_tokens = a->max_tokens};
}

static bool send_question(struct admission *a)
{
    BUF_AUTO(out, 1024);
    struct record_writer w = record_begin(&out, "admit");

    record_addn(&w, "n", (int64_t)a->n);
    record_adds(&w, "task_id", a->task_id);
    record_adds(&w, "provider", a->provider);
    record_adds(&w, "model", a->model);
    record_addn(&w, "input_bytes", (int64_t)a->input_bytes);
    record_addn(&w, "max_tokens", (int64_t)a->max_tokens);
    record_addb(&w, "running", a->state == ADMISSION_GIVEN);
    (void)record_end(&w);
    return broker_send(admissions.broker, &out);
}

static void verdict_tell(struct admission *a, const struct admit_verdict *verdict)
{
    loop_deadline_clear(&a->deadline);
    a->state = verdict->result == ADMIT_YES ? ADMISSION_GIVEN : ADMISSION_REFUSED;
    a->was_given = a->was_given || a->state == ADMISSION_GIVEN;
    a->answered(a->ctx, verdict);
}

static void on_waited(void *ctx)
{
    const struct admit_verdict verdict = {.result = ADMIT_AWAY};

    verdict_tell(ctx, &verdict);
}

/* Without sandboxd: given when its last words cover it. */
static bool give_alone(struct admission *a)
{
    const struct spend_request r = request_of(a);

    if (!spend_reserve(a->spend, &r)) {
        return false;
    }
    a->is_owed = true;
    return true;
}

bool admission_ask(struct admission *a, const char *task_id, struct spend *spend,
                   const struct spend_request *r)
{
    link_it(a);
    (void)snprintf(a->task_id, sizeof a->task_id, "%s", task_id);
    (void)snprintf(a->provider, sizeof a->provider, "%s", r->provider);
    (void)snprintf(a->model, sizeof a->model, "%s", r->model);
    a->input_bytes = r->input_bytes;
    a->max_tokens = r->max_tokens;
    a->spend = spend;
    a->state = ADMISSION_WAITING;
    if (send_question(a)) {
        a->is_owed = true;
    } else if (!broker_is_up(admissions.broker) && give_alone(a)) {
        a->state = ADMISSION_GIVEN;
        a->was_given = true;
        return true;
    }
    loop_deadline_set(&a->deadline, LIMIT_ADMIT_WAIT_MS, on_waited, a);
    return false;
}

bool admission_covers(const struct admission *a, const struct spend_request *r)
{
    return a->state == ADMISSION_GIVEN && strcmp(a->provider, r->provider) == 0 &&
           strcmp(a->model, r->model) == 0 && a->max_tokens == r->max_tokens &&
           r->input_bytes <= a->input_bytes;
}

static uint64_t lowest_n(void)
{
    uint64_t lowest = admissions.next_n;

    for (const struct admission *a = admissions.first; a; a = a->next) {
        lowest = a->n < lowest ? a->n : lowest;
    }
    return lowest;
}

void admission_end(struct admission *a, struct usage *u)
{
    unlink_it(a);
    if (!a->is_owed) {
        return;
    }
    a->is_owed = false;
    u->n = a->n;
    u->running = lowest_n();
    u->task_id = a->task_id;
    u->provider = a->provider;
    u->model = a->model;
    usage_tell(u);
}

/* ---- answers ---- */

static void take_admitted(const struct record *r)
{
    struct admission *a = find(r);

    if (!a) {
        return; /* who asked has left, and its usage is on the way */
    }

    const struct spend_request of = request_of(a);
    const struct admit_verdict verdict = {.result = ADMIT_YES};

    spend_take(a->spend, &of, r);
    if (a->state == ADMISSION_WAITING) {
        verdict_tell(a, &verdict);
    }
}

static void take_refused(const struct record *r)
{
    struct admission *a = find(r);
    struct admit_verdict verdict = {
        .result = ADMIT_NO, .code = record_get(r, "code"), .message = record_get(r, "message")};

    if (!a || a->state != ADMISSION_WAITING) {
        return;
    }
    /* What was given before stays set aside until its usage. */
    a->is_owed = a->was_given;
    if (!record_get_u64(r, "retry_after_s", UINT32_MAX, &verdict.retry_after_s)) {
        verdict.retry_after_s = 0;
    }
    verdict_tell(a, &verdict);
}

bool admissions_take(const struct record *r)
{
    if (record_is(r, "admitted")) {
        take_admitted(r);
    } else if (record_is(r, "refused")) {
        take_refused(r);
    } else {
        return false;
    }
    return true;
}

/* What runs is told first, so that what waits is judged beside it. */
void admissions_broker_up(void)
{
    for (struct admission *a = admissions.first; a; a = a->next) {
        if (a->state == ADMISSION_GIVEN) {
            (void)send_question(a);
        }
    }
    for (struct admission *a = admissions.first; a; a = a->next) {
        if (a->state == ADMISSION_WAITING && send_question(a)) {
            a->is_owed = true;
        }
    }
}

/* An answer that was on its way is lost; the last words may do. */
void admissions_broker_down(void)
{
    const struct admit_verdict verdict = {.result = ADMIT_YES};
    struct admission *a = admissions.first;

    while (a) {
        if (a->state == ADMISSION_WAITING && give_alone(a)) {
            verdict_tell(a, &verdict);
            a = admissions.first; /* the list may have changed */
        } else {
            a = a->next;
        }
    }
}
