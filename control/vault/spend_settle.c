/*
 * Settling: a request is over, what it cost is taken from the budgets and queued for the store.
 * Each counts once, however often it is told. Any thread.
 */
#include <stdio.h>

#include "control/vault/spend_private.h"
#include "lib/mem.h"
#include "lib/thread.h"

static struct spend_entry *spend_queued(const struct vault_spend *s, const char *boot_id, int64_t n)
{
    for (struct spend_entry *entry = s->first; entry; entry = entry->next) {
        if (entry->row.n == n && strcmp(entry->boot_id, boot_id) == 0) {
            return entry;
        }
    }
    return NULL;
}

static void spend_note_warning(struct spend_entry *entry, const struct spend_meter *m)
{
    size_t i = entry->row.event_count++;
    char limit[96];
    spend_limit_text(m, limit, sizeof(limit));
    (void)snprintf(entry->payloads[i], sizeof(entry->payloads[i]),
                   "{\"budget\":\"%s\",\"limit\":\"%s\",\"percent\":%d,\"used_microusd\":%lld,"
                   "\"used_tokens\":%lld}",
                   budget_scope_name(m->scope), limit, SPEND_WARN_PERCENT,
                   (long long)m->used_microusd, (long long)m->used_tokens);
    entry->events[i] = (struct event_row){.kind = "budget.warning",
                                          .severity = "warning",
                                          .app_id = entry->app.text,
                                          .task_id = entry->task.text,
                                          .payload = entry->payloads[i]};
    entry->row.events = entry->events;
}

static int64_t spend_known(int64_t figure)
{
    return figure > 0 ? figure : 0;
}

static void spend_charge(struct vault_spend *s, struct spend_task *t, struct spend_entry *entry)
{
    const struct usage_row *row = &entry->row;
    int64_t tokens = row->input + row->output + row->cached_read + row->cached_write;
    int64_t cost = spend_known(row->cost_microusd);
    if (t && spend_meter_add(&t->meter, cost, tokens)) {
        spend_note_warning(entry, &t->meter);
    }
    for (struct spend_meter *m = s->meters; m; m = m->next) {
        if (spend_counts(m, &entry->app) && spend_meter_add(m, cost, tokens)) {
            spend_note_warning(entry, m);
        }
    }
}

static struct spend_entry *spend_entry_new(struct vault *v, struct str boot_id,
                                           const struct spend_done *d, uint64_t connection)
{
    struct spend_entry *entry = mem_alloc(sizeof(*entry));
    struct prices_found price = prices_find(v, d->provider, d->model);
    struct prices_tokens t = {spend_known(d->tokens.input), spend_known(d->tokens.output),
                              spend_known(d->tokens.cached_read),
                              spend_known(d->tokens.cached_write)};
    bool failed = d->status < 200 || d->status > 299;
    bool nothing = t.input + t.output + t.cached_read + t.cached_write == 0;
    int64_t cost = failed && nothing ? 0 : prices_cost(&price, &t);
    entry->connection = connection;
    entry->agent = "";
    entry->task = d->task;
    (void)snprintf(entry->boot_id, sizeof(entry->boot_id), "%.*s",
                   STR_FMT(str_cut(boot_id, 0, SPEND_BOOT_MAX)));
    (void)snprintf(entry->provider, sizeof(entry->provider), "%.*s",
                   STR_FMT(str_cut(d->provider, 0, sizeof(entry->provider) - 1)));
    /* The agent names it, and it is anybody's word. */
    struct str model = str_is_text(d->model, false) ? d->model : STR("(unreadable)");
    (void)snprintf(entry->model, sizeof(entry->model), "%.*s",
                   STR_FMT(str_cut(model, 0, SPEND_MODEL_MAX)));
    vault_key_id(v, entry->provider, entry->key_id);
    entry->row =
        (struct usage_row){.n = d->n,
                           .settled_below = d->settled_below,
                           .failed = failed,
                           .input = t.input,
                           .output = t.output,
                           .cached_read = t.cached_read,
                           .cached_write = t.cached_write,
                           .cost_microusd = d->cost_microusd >= 0 ? d->cost_microusd : cost};
    return entry;
}

static void spend_enqueue(struct vault_spend *s, struct spend_entry *take_entry)
{
    *(s->last ? &s->last->next : &s->first) = take_entry;
    s->last = take_entry;
    s->queued++;
    (void)pthread_cond_signal(&s->work);
}

void spend_note(struct vault_spend *s, uint64_t connection, int64_t n)
{
    struct spend_noted *noted = mem_alloc(sizeof(*noted));
    *noted = (struct spend_noted){.next = s->noted, .connection = connection, .n = n};
    s->noted = noted;
}

/* Whose it is when the task is not in memory any more. */
static void spend_fill_owner(struct vault *v, const struct spend_task *t, struct spend_entry *entry)
{
    struct task_spend spent;
    struct err e;
    if (t) {
        entry->app = t->app;
        entry->agent = t->agent;
    } else if (task_spend_get(v->db, &entry->task, &spent, &e) == 0) {
        entry->app = spent.app_id;
    }
}

/* Also what an earlier connection still held, when it was told again and forgotten since. */
static bool spend_is_stored(struct vault *v, const char *boot_id, int64_t n)
{
    const struct vault_spend *s = v->spend;
    bool is_this_life = strcmp(boot_id, s->boot_id) == 0;
    return (is_this_life && n < s->settled_below) || usage_is_known(v->db, boot_id, n);
}

static void spend_take_mark(struct vault_spend *s, const char *boot_id, int64_t settled_below)
{
    if (strcmp(boot_id, s->boot_id) == 0 && settled_below > s->settled_below) {
        s->settled_below = settled_below;
    }
}

bool spend_settle(struct vault *v, struct str boot_id, const struct spend_done *d,
                  uint64_t connection)
{
    struct vault_spend *s = v->spend;
    struct spend_entry *entry = spend_entry_new(v, boot_id, d, connection);
    LOCK_GUARD(&s->lock);
    struct spend_entry *before = spend_queued(s, entry->boot_id, d->n);
    if (before) {
        before->connection = connection;
        free(entry);
        return true;
    }
    if (spend_is_stored(v, entry->boot_id, d->n)) {
        spend_note(s, connection, d->n);
        vault_broker_wake(v);
        free(entry);
        return true;
    }
    if (s->queued >= SPEND_QUEUE_MAX) {
        free(entry);
        return false;
    }
    struct spend_task *t = spend_find_task(s, &d->task);
    spend_fill_owner(v, t, entry);
    entry->row.day = spend_today();
    if (strcmp(entry->boot_id, s->boot_id) == 0) {
        free(spend_take_hold(s, d->n));
    }
    spend_take_mark(s, entry->boot_id, d->settled_below);
    spend_charge(s, t, entry);
    spend_enqueue(s, entry);
    return true;
}

bool spend_next_noted(struct vault *v, uint64_t *ret_connection, int64_t *ret_n)
{
    LOCK_GUARD(&v->spend->lock);
    struct spend_noted *noted = v->spend->noted;
    if (!noted) {
        return false;
    }
    *ret_connection = noted->connection;
    *ret_n = noted->n;
    v->spend->noted = noted->next;
    free(noted);
    return true;
}
