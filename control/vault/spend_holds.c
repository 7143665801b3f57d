/*
 * Holds: what requests that run may cost at most is set aside until each is settled, its proxy has
 * begun another life, or an hour has passed. Any thread, with the lock of spend held.
 */
#include <stdio.h>

#include "control/vault/spend_private.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define SPEND_HOLD_MS 3600000

void spend_drop_holds(struct vault_spend *s, int64_t now)
{
    for (struct spend_hold **at = &s->holds; *at;) {
        struct spend_hold *h = *at;
        if (now == 0 || now >= h->until_ms) {
            *at = h->next;
            s->hold_count--;
            free(h);
        } else {
            at = &h->next;
        }
    }
}

struct spend_hold *spend_take_hold(struct vault_spend *s, int64_t n)
{
    for (struct spend_hold **at = &s->holds; *at; at = &(*at)->next) {
        if ((*at)->n == n) {
            struct spend_hold *h = *at;
            *at = h->next;
            s->hold_count--;
            return h;
        }
    }
    return NULL;
}

bool spend_is_held(const struct vault_spend *s, int64_t n)
{
    const struct spend_hold *h = s->holds;
    while (h && h->n != n) {
        h = h->next;
    }
    return h != NULL;
}

void spend_hold(struct vault_spend *s, const struct spend_task *t, const struct spend_request *r,
                const struct spend_need *need)
{
    struct spend_hold *h = mem_alloc(sizeof(*h));
    free(spend_take_hold(s, r->n));
    *h = (struct spend_hold){.next = s->holds,
                             .n = r->n,
                             .task = t->id,
                             .app = t->app,
                             .microusd = need->microusd,
                             .tokens = need->tokens,
                             .until_ms = clock_mono_ms() + SPEND_HOLD_MS};
    s->holds = h;
    s->hold_count++;
}

/* What runs holds of a budget, but for the request itself, which may have been judged before. */
void spend_held(const struct vault_spend *s, const struct spend_meter *m,
                const struct spend_request *r, struct spend_need *ret)
{
    *ret = (struct spend_need){0};
    for (const struct spend_hold *h = s->holds; h; h = h->next) {
        bool counts =
            m->scope == BUDGET_TASK ? ulid_eq(&h->task, &r->task) : spend_counts(m, &h->app);
        if (counts && h->n != r->n) {
            ret->microusd += h->microusd;
            ret->tokens += h->tokens;
        }
    }
}

void spend_boot(struct vault *v, struct str boot_id)
{
    struct vault_spend *s = v->spend;
    char text[SPEND_BOOT_MAX + 1];
    struct err e;
    (void)snprintf(text, sizeof(text), "%.*s", STR_FMT(str_cut(boot_id, 0, SPEND_BOOT_MAX)));
    {
        LOCK_GUARD(&s->lock);
        if (strcmp(s->boot_id, text) == 0) {
            return;
        }
        (void)snprintf(s->boot_id, sizeof(s->boot_id), "%s", text);
        s->settled_below = 0;
        spend_drop_holds(s, 0);
    }
    if (usage_forget_others(v->db, text, &e) != 0) {
        log_warn("what was counted of an earlier proxy was not forgotten", "error", e.msg);
    }
}
