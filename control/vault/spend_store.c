/*
 * The thread that stores what was spent, many requests in one transaction, and only then lets the
 * proxy forget them. Blocks for the database; nobody waits for it.
 */
#include <stdio.h>

#include "control/vault/spend_private.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define SPEND_BATCH          256
#define SPEND_AGAIN_MS       1000
#define SPEND_TRIES_PER_LINE 60 /* a full disk is told once a minute */

/* The row's texts stand in the entry itself. */
static void spend_fill_row(struct spend_entry *entry)
{
    struct usage_row *row = &entry->row;
    row->boot_id = entry->boot_id;
    row->task_id = entry->task.text;
    row->app_id = entry->app.text;
    row->agent = entry->agent;
    row->provider = entry->provider;
    row->model = entry->model;
    row->key_id = entry->key_id;
}

/* Waits for work; 0 at the end. The entries stay in the queue until they are stored. */
static size_t spend_collect(struct vault_spend *s, struct usage_row rows[SPEND_BATCH])
{
    size_t count = 0;
    LOCK_GUARD(&s->lock);
    while (!s->first && !s->stopping) {
        (void)pthread_cond_wait(&s->work, &s->lock);
    }
    for (struct spend_entry *entry = s->first; entry && count < SPEND_BATCH; entry = entry->next) {
        spend_fill_row(entry);
        rows[count++] = entry->row;
    }
    return count;
}

static void spend_drop_first(struct vault_spend *s)
{
    struct spend_entry *entry = s->first;
    spend_note(s, entry->connection, entry->row.n);
    s->first = entry->next;
    s->last = s->first ? s->last : NULL;
    s->queued--;
    free(entry);
}

static int spend_store(struct vault *v, const struct usage_row *rows, size_t count, struct err *e)
{
    struct vault_spend *s = v->spend;
    LOCK_GUARD(&s->store_lock);
    if (usage_add(v->db, rows, count, e) != 0) {
        return -1;
    }
    LOCK_GUARD(&s->lock);
    for (size_t i = 0; i < count; i++) {
        spend_drop_first(s);
    }
    return 0;
}

/* A pause before the next try; true at the stop. */
static bool spend_pause(struct vault_spend *s)
{
    int64_t until = clock_mono_ms() + SPEND_AGAIN_MS;
    LOCK_GUARD(&s->lock);
    while (!s->stopping && thread_cond_wait_until(&s->work, &s->lock, until)) {
    }
    return s->stopping;
}

void *spend_store_run(void *vault)
{
    struct vault *v = vault;
    struct usage_row *rows AUTOFREE = mem_calloc(SPEND_BATCH, sizeof(*rows));
    struct err e;
    size_t count = 0;
    unsigned tries = 0;
    while ((count = spend_collect(v->spend, rows)) > 0) {
        if (spend_store(v, rows, count, &e) == 0) {
            vault_broker_wake(v);
            tries = 0;
            continue;
        }
        if (tries++ % SPEND_TRIES_PER_LINE == 0) {
            log_error("what was spent could not be stored; it is tried again", "error", e.msg);
        }
        if (spend_pause(v->spend)) {
            break; /* the proxy tells it again to the next one */
        }
    }
    return NULL;
}

int spend_start(struct vault *v, struct err *e)
{
    struct vault_spend *s = mem_alloc(sizeof(*s));
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_mutex_init(&s->store_lock, NULL);
    thread_cond_init(&s->work);
    v->spend = s;
    if (spend_load_budgets(v, e) != 0) {
        return -1;
    }
    s->thread = thread_start("vault-spend", spend_store_run, v);
    s->has_thread = true;
    return 0;
}

static void spend_free(struct vault_spend *s)
{
    while (s->first) {
        spend_drop_first(s);
    }
    while (s->noted) {
        struct spend_noted *noted = s->noted;
        s->noted = noted->next;
        free(noted);
    }
    while (s->holds) {
        struct spend_hold *hold = s->holds;
        s->holds = hold->next;
        free(hold);
    }
    while (s->tasks) {
        struct spend_task *task = s->tasks;
        s->tasks = task->next;
        free(task);
    }
    while (s->meters) {
        struct spend_meter *m = s->meters;
        s->meters = m->next;
        free(m);
    }
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_mutex_destroy(&s->store_lock);
    (void)pthread_cond_destroy(&s->work);
    free(s);
}

void spend_stop(struct vault *v)
{
    struct vault_spend *s = v->spend;
    if (!s) {
        return;
    }
    {
        LOCK_GUARD(&s->lock);
        s->stopping = true;
        (void)pthread_cond_broadcast(&s->work);
    }
    if (s->has_thread) {
        (void)pthread_join(s->thread, NULL);
    }
    v->spend = NULL;
    spend_free(s);
}
