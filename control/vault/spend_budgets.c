/*
 * Budgets as their owner sees and sets them. Any thread; blocks for the database.
 */
#include <stdio.h>

#include "control/vault/spend_private.h"
#include "lib/mem.h"
#include "lib/thread.h"

static struct spend_meter **spend_find_meter(struct vault_spend *s, enum budget_scope scope,
                                             const struct ulid *app)
{
    struct spend_meter **at = &s->meters;
    while (*at && ((*at)->scope != scope || (scope == BUDGET_APP && !ulid_eq(&(*at)->app, app)))) {
        at = &(*at)->next;
    }
    return at;
}

/* Everything stored that a budget counts. */
static int spend_total(struct vault *v, const struct spend_meter *m, int64_t *ret_microusd,
                       int64_t *ret_tokens, struct err *e)
{
    struct usage_filter filter = {.to_day = INT64_MAX, .app_id = "", .task_id = "", .provider = ""};
    struct usage_sums sums = {0};
    *ret_microusd = 0;
    *ret_tokens = 0;
    if (m->scope == BUDGET_TASK) {
        return 0; /* each task counts its own */
    }
    filter.from_day = m->scope == BUDGET_DAY ? spend_today() : 0;
    filter.app_id = m->scope == BUDGET_APP ? m->app.text : "";
    if (usage_sum(v->db, &filter, &sums, e) != 0) {
        return -1;
    }
    *ret_microusd = sums.cost_microusd;
    *ret_tokens = usage_tokens(&sums);
    return 0;
}

static void spend_add_queued(const struct vault_spend *s, struct spend_meter *m)
{
    for (const struct spend_entry *entry = s->first; entry; entry = entry->next) {
        const struct usage_row *row = &entry->row;
        if (spend_counts(m, &entry->app) && (m->scope != BUDGET_DAY || row->day == m->day)) {
            m->used_microusd += row->cost_microusd > 0 ? row->cost_microusd : 0;
            m->used_tokens += row->input + row->output + row->cached_read + row->cached_write;
        }
    }
}

/* used_* from the store and the queue, less what does not count. Both locks are held, so that
 * nothing is in both or in neither. */
static int spend_measure(struct vault *v, struct spend_meter *m, bool reset, struct err *e)
{
    int64_t microusd = 0;
    int64_t tokens = 0;
    m->day = spend_today();
    if (spend_total(v, m, &microusd, &tokens, e) != 0) {
        return -1;
    }
    m->used_microusd = microusd;
    m->used_tokens = tokens;
    spend_add_queued(v->spend, m);
    if (reset) {
        m->base_microusd = m->used_microusd;
        m->base_tokens = m->used_tokens;
        m->since_at = clock_unix_ms();
    }
    /* A day that was begun anew by its owner is another one tomorrow. */
    if (m->scope != BUDGET_DAY || m->since_at / USAGE_DAY_MS == m->day) {
        m->used_microusd -= m->base_microusd;
        m->used_tokens -= m->base_tokens;
    }
    m->warned = spend_meter_is_high(m);
    return 0;
}

static struct spend_meter spend_meter_of(const struct budget_row *row)
{
    struct spend_meter m = {.scope = row->scope,
                            .limit_microusd = row->limit_microusd,
                            .limit_tokens = row->limit_tokens,
                            .allow_unknown_price = row->allow_unknown_price,
                            .base_microusd = row->base_microusd,
                            .base_tokens = row->base_tokens,
                            .since_at = row->since_at};
    if (row->scope == BUDGET_APP) {
        (void)ulid_parse(str_of(row->app_id), &m.app);
    }
    return m;
}

static void spend_put_meter(struct vault_spend *s, const struct spend_meter *m)
{
    struct spend_meter **at = spend_find_meter(s, m->scope, &m->app);
    struct spend_meter *next = *at ? (*at)->next : NULL;
    if (!*at) {
        *at = mem_alloc(sizeof(**at));
        s->meter_count++;
    }
    **at = *m;
    (*at)->next = next;
}

int spend_load_budgets(struct vault *v, struct err *e)
{
    struct arena *a AUTO(arena) = arena_new(8UL * 1024 * 1024);
    struct budget_row *rows = NULL;
    size_t count = 0;
    if (budgets_list(v->db, a, &rows, &count, e) != 0) {
        return -1;
    }
    LOCK_GUARD(&v->spend->lock);
    for (size_t i = 0; i < count; i++) {
        struct spend_meter m = spend_meter_of(&rows[i]);
        if (spend_measure(v, &m, false, e) != 0) {
            return -1;
        }
        spend_put_meter(v->spend, &m);
    }
    return 0;
}

/* Where counting begins. */
static int spend_begin(struct vault *v, struct spend_meter *m, bool reset, struct err *e)
{
    LOCK_GUARD(&v->spend->lock);
    const struct spend_meter *known = *spend_find_meter(v->spend, m->scope, &m->app);
    if (!known && v->spend->meter_count >= SPEND_BUDGETS_MAX) {
        return err_set(e, ERR_LIMIT, 0, "%d budgets are set already", SPEND_BUDGETS_MAX);
    }
    if (known) {
        m->base_microusd = known->base_microusd;
        m->base_tokens = known->base_tokens;
        m->since_at = known->since_at;
    }
    /* A first budget counts from now on; that of a day from the day's beginning. */
    return spend_measure(v, m, reset || (!known && m->scope != BUDGET_DAY), e);
}

int vault_budget_set(struct vault *v, const struct vault_budget *budget, bool reset, struct err *e)
{
    struct vault_spend *s = v->spend;
    struct spend_meter m = {.scope = budget->scope,
                            .app = budget->app,
                            .limit_microusd = budget->limit_microusd,
                            .limit_tokens = budget->limit_tokens,
                            .allow_unknown_price = budget->allow_unknown_price};
    LOCK_GUARD(&s->store_lock);
    if (spend_begin(v, &m, reset, e) != 0) {
        return -1;
    }
    struct budget_row row = {.scope = m.scope,
                             .app_id = m.scope == BUDGET_APP ? m.app.text : "",
                             .limit_microusd = m.limit_microusd,
                             .limit_tokens = m.limit_tokens,
                             .allow_unknown_price = m.allow_unknown_price,
                             .base_microusd = m.base_microusd,
                             .base_tokens = m.base_tokens,
                             .since_at = m.since_at};
    if (budgets_put(v->db, &row, e) != 0) {
        return -1;
    }
    LOCK_GUARD(&s->lock);
    if (spend_measure(v, &m, false, e) != 0) {
        return -1;
    }
    spend_put_meter(s, &m);
    return 0;
}

int vault_budget_remove(struct vault *v, enum budget_scope scope, const struct ulid *app,
                        struct err *e)
{
    struct vault_spend *s = v->spend;
    LOCK_GUARD(&s->store_lock);
    if (budgets_remove(v->db, scope, scope == BUDGET_APP ? app->text : "", e) != 0) {
        return -1;
    }
    LOCK_GUARD(&s->lock);
    struct spend_meter **at = spend_find_meter(s, scope, app);
    struct spend_meter *m = *at;
    if (m) {
        *at = m->next;
        s->meter_count--;
        free(m);
    }
    return 0;
}

static struct vault_budget spend_view(struct vault_spend *s, struct spend_meter *m)
{
    spend_turn_day(m);
    struct vault_budget view = {.scope = m->scope,
                                .app = m->app,
                                .limit_microusd = m->limit_microusd,
                                .limit_tokens = m->limit_tokens,
                                .allow_unknown_price = m->allow_unknown_price,
                                .used_microusd = m->used_microusd,
                                .used_tokens = m->used_tokens,
                                .since_at = m->since_at,
                                .is_high = spend_meter_is_high(m)};
    for (const struct spend_hold *h = s->holds; h; h = h->next) {
        if (spend_counts(m, &h->app)) {
            view.held_microusd += h->microusd;
            view.held_tokens += h->tokens;
        }
    }
    /* Also one that has less left than the next request could take. */
    view.is_reached = m->refused ||
                      (m->limit_microusd >= 0 && m->used_microusd >= m->limit_microusd) ||
                      (m->limit_tokens >= 0 && m->used_tokens >= m->limit_tokens);
    return view;
}

size_t vault_budget_list(struct vault *v, struct arena *a, struct vault_budget **ret)
{
    struct vault_spend *s = v->spend;
    size_t count = 0;
    LOCK_GUARD(&s->lock);
    struct vault_budget *list = arena_alloc(a, sizeof(*list) * (s->meter_count + 1));
    for (struct spend_meter *m = s->meters; m; m = m->next) {
        list[count++] = spend_view(s, m);
    }
    *ret = list;
    return count;
}

bool vault_budget_get(struct vault *v, enum budget_scope scope, const struct ulid *app,
                      struct vault_budget *ret)
{
    struct vault_spend *s = v->spend;
    LOCK_GUARD(&s->lock);
    struct spend_meter *m = *spend_find_meter(s, scope, app);
    if (m) {
        *ret = spend_view(s, m);
    }
    return m != NULL;
}
