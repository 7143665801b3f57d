/*
 * Admission: every request of a model is judged against every budget that counts it, before it goes
 * anywhere. Any thread; never blocks but for the lock.
 */
#include "control/vault/spend.h"

#include <stdio.h>

#include "control/vault/spend_private.h"
#include "lib/clock.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define SPEND_INPUT_BYTES_PER_TOKEN 3
#define SPEND_TOKENS_MAX            INT64_C(100000000)
#define SPEND_ENDED_MS              900000 /* an ended task's last request may be told that late */
#define SPEND_WINDOW_MS             60000
#define SPEND_WINDOWS_MAX           3 /* minutes of too many requests before a task is stopped */
#define SPEND_HELD_RETRY_S          3

const char *spend_verdict_name(enum spend_verdict verdict)
{
    static const char *const names[] = {
        [SPEND_ADMITTED] = "",
        [SPEND_BUDGET_REACHED] = "budget_reached",
        [SPEND_PRICE_UNKNOWN] = "price_unknown",
        [SPEND_RATE_LIMITED] = "rate_limited",
        [SPEND_UNKNOWN_TASK] = "unknown_task",
    };
    return names[verdict];
}

/* ---- budgets ---- */

bool spend_counts(const struct spend_meter *m, const struct ulid *app)
{
    return m->scope == BUDGET_DAY || m->scope == BUDGET_INSTALLATION ||
           (m->scope == BUDGET_APP && ulid_eq(&m->app, app));
}

void spend_turn_day(struct spend_meter *m)
{
    int64_t today = spend_today();
    if (m->scope == BUDGET_DAY && m->day != today) {
        m->day = today;
        m->used_microusd = 0;
        m->used_tokens = 0;
        m->warned = false;
        m->refused = false;
    }
}

/* SPEND_WARN_PERCENT of a limit, rounded up: nothing spent is never much. */
static int64_t spend_mark(int64_t limit)
{
    return limit - limit / 100 * (100 - SPEND_WARN_PERCENT) -
           limit % 100 * (100 - SPEND_WARN_PERCENT) / 100;
}

bool spend_meter_is_high(const struct spend_meter *m)
{
    return (m->limit_microusd >= 0 && m->used_microusd >= spend_mark(m->limit_microusd)) ||
           (m->limit_tokens >= 0 && m->used_tokens >= spend_mark(m->limit_tokens));
}

bool spend_meter_add(struct spend_meter *m, int64_t microusd, int64_t tokens)
{
    spend_turn_day(m);
    m->used_microusd += microusd;
    m->used_tokens += tokens;
    bool first = !m->warned && spend_meter_is_high(m);
    m->warned = m->warned || first;
    return first;
}

const char *spend_scope_text(enum budget_scope scope)
{
    static const char *const names[] = {
        [BUDGET_TASK] = "this task",
        [BUDGET_APP] = "this app",
        [BUDGET_DAY] = "this day (UTC)",
        [BUDGET_INSTALLATION] = "this installation",
    };
    return names[scope];
}

static void spend_usd(int64_t microusd, char *out, size_t size)
{
    (void)snprintf(out, size, "%lld.%04lld USD", (long long)(microusd / 1000000),
                   (long long)(microusd % 1000000 / 100));
}

void spend_limit_text(const struct spend_meter *m, char *out, size_t size)
{
    char usd[48] = "";
    char tokens[48] = "";
    if (m->limit_microusd >= 0) {
        spend_usd(m->limit_microusd, usd, sizeof(usd));
    }
    if (m->limit_tokens >= 0) {
        (void)snprintf(tokens, sizeof(tokens), "%lld tokens", (long long)m->limit_tokens);
    }
    (void)snprintf(out, size, "%s%s%s", usd, usd[0] && tokens[0] ? ", " : "", tokens);
}

/* ---- judging ---- */

static struct spend_need spend_need_of(struct vault *v, const struct spend_request *r,
                                       struct spend_answer *ret)
{
    struct prices_found price = prices_find(v, r->provider, r->model);
    int64_t largest = price.known && price.max_output > 0 ? price.max_output : PRICES_OUTPUT_TOKENS;
    int64_t bytes = r->input_bytes < 0 ? 0 : r->input_bytes;
    struct prices_tokens t = {.input = bytes / SPEND_INPUT_BYTES_PER_TOKEN + 1,
                              .output = r->max_tokens > 0 ? r->max_tokens : largest};
    t.input = t.input < SPEND_TOKENS_MAX ? t.input : SPEND_TOKENS_MAX;
    t.output = t.output < SPEND_TOKENS_MAX ? t.output : SPEND_TOKENS_MAX;
    struct prices_rates rates = *prices_rates_for(&price, t.input);
    /* The whole prompt may be written to the provider's cache, which can cost more. */
    rates.input = rates.cached_write > rates.input ? rates.cached_write : rates.input;
    struct prices_found dearest = {.known = price.known, .rates = rates};
    int64_t cost = prices_cost(&dearest, &t);
    ret->input_price = price.known ? rates.input : -1;
    ret->output_price = price.known ? rates.output : -1;
    return (struct spend_need){
        .microusd = cost > 0 ? cost : 0, .tokens = t.input + t.output, .price_known = price.known};
}

static void spend_refuse_budget(const struct spend_meter *m, const struct spend_need *need,
                                struct spend_answer *ret)
{
    char limit[96];
    char used[48];
    char more[48];
    bool money = m->limit_microusd >= 0 && m->used_microusd + need->microusd > m->limit_microusd;
    spend_limit_text(m, limit, sizeof(limit));
    if (money) {
        spend_usd(m->used_microusd, used, sizeof(used));
        spend_usd(need->microusd, more, sizeof(more));
    } else {
        (void)snprintf(used, sizeof(used), "%lld tokens", (long long)m->used_tokens);
        (void)snprintf(more, sizeof(more), "%lld tokens", (long long)need->tokens);
    }
    ret->verdict = SPEND_BUDGET_REACHED;
    ret->scope = budget_scope_name(m->scope);
    (void)snprintf(ret->message, sizeof(ret->message),
                   "the budget of %s (%s) is reached: %s are spent, and the next request could "
                   "take up to %s; raise the budget to go on",
                   spend_scope_text(m->scope), limit, used, more);
}

static void spend_refuse_price(const struct spend_meter *m, const struct spend_request *r,
                               struct spend_answer *ret)
{
    ret->verdict = SPEND_PRICE_UNKNOWN;
    ret->scope = budget_scope_name(m->scope);
    (void)snprintf(ret->message, sizeof(ret->message),
                   "%s has a budget in money, and the price of %.*s of %.*s is not known: set the "
                   "price, allow unknown prices for that budget, or choose another model",
                   spend_scope_text(m->scope), STR_FMT(str_cut(r->model, 0, 100)),
                   STR_FMT(r->provider));
}

/* One budget's word; a refusal for good wins over one for now. */
static void spend_judge_meter(const struct vault_spend *s, struct spend_meter *m,
                              const struct spend_request *r, const struct spend_need *need,
                              struct spend_answer *ret)
{
    struct spend_need held;
    bool money = m->limit_microusd >= 0;
    bool tokens = m->limit_tokens >= 0;
    if (ret->verdict != SPEND_ADMITTED && ret->verdict != SPEND_RATE_LIMITED) {
        return;
    }
    spend_turn_day(m);
    m->refused = false;
    if (money && !need->price_known && !m->allow_unknown_price) {
        spend_refuse_price(m, r, ret);
        return;
    }
    if ((money && m->used_microusd + need->microusd > m->limit_microusd) ||
        (tokens && m->used_tokens + need->tokens > m->limit_tokens)) {
        m->refused = true;
        spend_refuse_budget(m, need, ret);
        return;
    }
    spend_held(s, m, r, &held);
    int64_t left_microusd = m->limit_microusd - m->used_microusd - held.microusd - need->microusd;
    int64_t left_tokens = m->limit_tokens - m->used_tokens - held.tokens - need->tokens;
    if ((money && left_microusd < 0) || (tokens && left_tokens < 0)) {
        ret->verdict = SPEND_RATE_LIMITED;
        ret->retry_after_s = SPEND_HELD_RETRY_S;
        (void)snprintf(ret->message, sizeof(ret->message),
                       "requests that still run hold the rest of the budget of %s",
                       spend_scope_text(m->scope));
    }
    if (money && (ret->left_microusd < 0 || left_microusd < ret->left_microusd)) {
        ret->left_microusd = left_microusd < 0 ? 0 : left_microusd;
    }
    if (tokens && (ret->left_tokens < 0 || left_tokens < ret->left_tokens)) {
        ret->left_tokens = left_tokens < 0 ? 0 : left_tokens;
    }
}

/* Requests of one minute; a task that cannot stop asking is stopped. */
static void spend_judge_rate(const struct vault *v, struct spend_task *t, struct spend_answer *ret)
{
    int64_t limit = v->config->requests_per_minute;
    int64_t now = clock_mono_ms();
    if (limit == 0) {
        return;
    }
    if (t->window_ms == 0 || now - t->window_ms >= SPEND_WINDOW_MS) {
        t->window_ms = now;
        t->window_count = 0;
    }
    if (++t->window_count <= limit) {
        return;
    }
    t->windows_full += t->window_count == limit + 1 ? 1 : 0;
    ret->verdict = SPEND_RATE_LIMITED;
    ret->retry_after_s = (SPEND_WINDOW_MS - (now - t->window_ms)) / 1000 + 1;
    (void)snprintf(ret->message, sizeof(ret->message),
                   "this task asked its model more than %lld times in a minute "
                   "(SANDBOXD_TASK_REQUESTS_PER_MINUTE)",
                   (long long)limit);
    if (t->windows_full >= SPEND_WINDOWS_MAX) {
        ret->verdict = SPEND_BUDGET_REACHED;
        ret->scope = "requests_per_minute";
        (void)snprintf(ret->message, sizeof(ret->message),
                       "this task asked its model more than %lld times in a minute again and again "
                       "and was stopped (SANDBOXD_TASK_REQUESTS_PER_MINUTE)",
                       (long long)limit);
    }
}

/* ---- tasks ---- */

struct spend_task *spend_find_task(struct vault_spend *s, const struct ulid *id)
{
    for (struct spend_task *t = s->tasks; t; t = t->next) {
        if (ulid_eq(&t->id, id)) {
            return t;
        }
    }
    return NULL;
}

static void spend_drop_ended(struct vault_spend *s, int64_t now)
{
    for (struct spend_task **at = &s->tasks; *at;) {
        struct spend_task *t = *at;
        if (t->ended_ms > 0 && now - t->ended_ms > SPEND_ENDED_MS) {
            *at = t->next;
            free(t);
        } else {
            at = &t->next;
        }
    }
}

static bool spend_default_allows_unknown(const struct vault_spend *s)
{
    for (const struct spend_meter *m = s->meters; m; m = m->next) {
        if (m->scope == BUDGET_TASK) {
            return m->allow_unknown_price;
        }
    }
    return false;
}

int spend_task_add(struct vault *v, const struct ulid *task, const struct vault_agent *agent,
                   struct err *e)
{
    struct vault_spend *s = v->spend;
    struct task_spend spent;
    if (task_spend_get(v->db, task, &spent, e) != 0) {
        return -1;
    }
    LOCK_GUARD(&s->lock);
    spend_drop_ended(s, clock_mono_ms());
    struct spend_task *t = spend_find_task(s, task);
    if (t) {
        t->ended_ms = 0;
        return 0;
    }
    t = mem_alloc(sizeof(*t));
    *t = (struct spend_task){.next = s->tasks,
                             .id = *task,
                             .app = spent.app_id,
                             .agent = agent->id,
                             .meter = {.scope = BUDGET_TASK,
                                       .limit_microusd = spent.budget_microusd,
                                       .limit_tokens = spent.budget_tokens,
                                       .allow_unknown_price = spend_default_allows_unknown(s),
                                       .used_microusd = spent.microusd,
                                       .used_tokens = spent.tokens}};
    t->meter.warned = spend_meter_is_high(&t->meter);
    s->tasks = t;
    return 0;
}

void spend_task_end(struct vault *v, const struct ulid *task)
{
    LOCK_GUARD(&v->spend->lock);
    struct spend_task *t = spend_find_task(v->spend, task);
    if (t) {
        t->ended_ms = clock_mono_ms();
    }
}

/* ---- admission ---- */

static void spend_judge(struct vault *v, struct spend_task *t, const struct spend_request *r,
                        const struct spend_need *need, struct spend_answer *ret)
{
    struct vault_spend *s = v->spend;
    if (s->hold_count >= SPEND_HOLDS_MAX) {
        ret->verdict = SPEND_RATE_LIMITED;
        ret->retry_after_s = SPEND_HELD_RETRY_S;
        (void)snprintf(ret->message, sizeof(ret->message), "%d requests run already",
                       SPEND_HOLDS_MAX);
        return;
    }
    if (!spend_is_held(s, r->n)) {
        spend_judge_rate(v, t, ret);
    }
    spend_judge_meter(s, &t->meter, r, need, ret);
    for (struct spend_meter *m = s->meters; m; m = m->next) {
        if (spend_counts(m, &t->app)) {
            spend_judge_meter(s, m, r, need, ret);
        }
    }
}

void spend_admit(struct vault *v, const struct spend_request *r, struct spend_answer *ret)
{
    struct vault_spend *s = v->spend;
    *ret = (struct spend_answer){.left_microusd = -1, .left_tokens = -1, .scope = ""};
    struct spend_need need = spend_need_of(v, r, ret);
    LOCK_GUARD(&s->lock);
    spend_drop_holds(s, clock_mono_ms());
    struct spend_task *t = spend_find_task(s, &r->task);
    if (!t || (t->ended_ms > 0 && !r->running)) {
        ret->verdict = SPEND_UNKNOWN_TASK;
        (void)snprintf(ret->message, sizeof(ret->message), "this task does not run");
        return;
    }
    ret->app = t->app;
    if (!r->running) {
        spend_judge(v, t, r, &need, ret);
    }
    if (ret->verdict == SPEND_ADMITTED) {
        spend_hold(s, t, r, &need);
    } else if (ret->verdict != SPEND_RATE_LIMITED) {
        ret->first = !t->refused;
        t->refused = true;
    }
}
