/*
 * The cache of grants.
 *
 * Must never log a token or a key, keep a key after its task ended, or take "sandboxd is away" for
 * "unknown". Main thread.
 *
 * A grant is asked again after every reconnect, because its end may have been missed; until that
 * answer it stays good, and without sandboxd for fifteen minutes.
 */
#include "proxy/credentials_grant.h"

#include <stdlib.h>

#include "lib/log.h"
#include "lib/mem.h"

#define MINUTE_MS 60000
#define RATE_MAX  1000000

struct grant {
    struct grant *next, *prev;
    struct ulid sandbox;
    char *token;             /* owned, wiped */
    char *task_id;           /* owned; NULL until answered */
    struct grant_keys *keys; /* NULL until answered */
    struct spend spend;
    uint64_t requests_per_minute; /* 0: no limit */
    int64_t rate_credit, rate_at_ms;
    uint64_t question; /* number of the one that is out; 0: none */
    struct grant_user *users;
    bool is_ok;
    bool is_stale; /* a key changed: asked again before the next request */
};

static struct {
    struct broker *broker;
    struct grant *first, *last; /* the oldest first */
    unsigned count;
    uint64_t next_n;
    int64_t down_since_ms; /* 0: up */
} grants;

void grants_init(struct broker *broker)
{
    grants.broker = broker;
    grants.next_n = 1;
    grants.down_since_ms = loop_now_ms();
}

/* ---- life ---- */

static void free_secret(char *text)
{
    if (text) {
        mem_wipe(text, strlen(text));
        free(text);
    }
}

static void forget_answer(struct grant *g)
{
    grant_keys_drop(g->keys);
    g->keys = NULL;
    free(g->task_id);
    g->task_id = NULL;
    g->is_ok = false;
}

static void grant_unlink(struct grant *g)
{
    *(g->prev ? &g->prev->next : &grants.first) = g->next;
    *(g->next ? &g->next->prev : &grants.last) = g->prev;
    g->next = g->prev = NULL;
    grants.count--;
}

static void grant_wipe(struct grant *g)
{
    forget_answer(g);
    free_secret(g->token);
    free(g);
}

/* Without users. */
static void grant_free(struct grant *g)
{
    grant_unlink(g);
    grant_wipe(g);
}

static struct grant *grant_new(const struct ulid *sandbox, struct str token)
{
    struct grant *g = mem_alloc(sizeof(*g));

    g->sandbox = *sandbox;
    g->token = mem_dup(token.ptr, token.len);
    g->prev = grants.last;
    *(grants.last ? &grants.last->next : &grants.first) = g;
    grants.last = g;
    grants.count++;
    return g;
}

static struct grant *grant_find(const struct ulid *sandbox, struct str token)
{
    for (struct grant *g = grants.first; g; g = g->next) {
        if (ulid_eq(&g->sandbox, sandbox) && str_eq_secret(str_of(g->token), token)) {
            return g;
        }
    }
    return NULL;
}

/* Makes room by the oldest one that nobody uses. */
static bool make_room(void)
{
    for (struct grant *g = grants.first; grants.count >= LIMIT_GRANTS && g; g = g->next) {
        if (!g->users) {
            grant_free(g);
            return true;
        }
    }
    return grants.count < LIMIT_GRANTS;
}

struct grant_keys *grant_keys_of(const struct grant *g)
{
    return g->keys;
}

struct spend *grant_spend(struct grant *g)
{
    return &g->spend;
}

/* A bucket that holds a minute's requests: a burst may take all of it, a loop is slowed to the
 * rate.
 */
int64_t grant_rate_wait_ms(struct grant *g)
{
    int64_t rate = (int64_t)g->requests_per_minute;
    int64_t now = loop_now_ms();

    if (rate == 0) {
        return 0;
    }
    if (g->rate_at_ms == 0 || now - g->rate_at_ms >= MINUTE_MS) {
        g->rate_credit = rate * MINUTE_MS;
    } else {
        g->rate_credit += (now - g->rate_at_ms) * rate;
    }
    g->rate_at_ms = now;
    if (g->rate_credit > rate * MINUTE_MS) {
        g->rate_credit = rate * MINUTE_MS;
    }
    if (g->rate_credit < MINUTE_MS) {
        return (MINUTE_MS - g->rate_credit + rate - 1) / rate;
    }
    g->rate_credit -= MINUTE_MS;
    return 0;
}

const char *grant_task_id(const struct grant *g)
{
    return g->task_id ? g->task_id : "";
}

/* ---- users ---- */

static void user_link(struct grant_user *u, struct grant *g)
{
    u->grant = g;
    u->prev = NULL;
    u->next = g->users;
    if (g->users) {
        g->users->prev = u;
    }
    g->users = u;
}

static void user_unlink(struct grant_user *u)
{
    struct grant *g = u->grant;

    loop_deadline_clear(&u->deadline);
    u->is_waiting = false;
    if (!g) {
        return;
    }
    *(u->prev ? &u->prev->next : &g->users) = u->next;
    if (u->next) {
        u->next->prev = u->prev;
    }
    u->next = u->prev = NULL;
    u->grant = NULL;
}

void grant_user_done(struct grant_user *u)
{
    struct grant *g = u->grant;

    user_unlink(u);
    /* A question whose asker left; the answer, if it comes, is for nobody. */
    if (g && !g->users && !g->is_ok) {
        grant_free(g);
    }
}

static void user_waited(void *ctx)
{
    struct grant_user *u = ctx;
    struct grant_user copy = *u;

    grant_user_done(u);
    copy.answered(copy.ctx, GRANT_UNAVAILABLE);
}

/* ---- questions ---- */

static void question_send(struct grant *g)
{
    BUF_AUTO(out, LIMIT_TOKEN_BYTES + 256);
    uint64_t n = grants.next_n;

    if (g->question != 0) {
        return;
    }

    struct record_writer w = record_begin(&out, "grant");

    record_addn(&w, "n", (int64_t)n);
    record_adds(&w, "sandbox_id", g->sandbox.text);
    record_adds(&w, "token", g->token);
    (void)record_end(&w);
    if (broker_send(grants.broker, &out)) {
        g->question = n;
        grants.next_n++;
    }
    mem_wipe(out.ptr, out.len);
}

static unsigned questions_of(const struct ulid *sandbox)
{
    unsigned count = 0;

    for (const struct grant *g = grants.first; g; g = g->next) {
        count += !g->is_ok && ulid_eq(&g->sandbox, sandbox);
    }
    return count;
}

static bool is_good(const struct grant *g)
{
    return g->is_ok && !g->is_stale &&
           (grants.down_since_ms == 0 ||
            loop_now_ms() - grants.down_since_ms < LIMIT_GRANT_ALONE_MS);
}

bool grant_ask(struct grant_user *u, const struct ulid *sandbox, struct str token, bool *ret_busy)
{
    struct grant *g = grant_find(sandbox, token);

    *ret_busy = false;
    if (!g) {
        if (questions_of(sandbox) >= LIMIT_GRANT_QUERIES || !make_room()) {
            *ret_busy = true;
            return false;
        }
        g = grant_new(sandbox, token);
    }
    user_link(u, g);
    if (is_good(g)) {
        return true;
    }
    u->is_waiting = true;
    loop_deadline_set(&u->deadline, LIMIT_GRANT_WAIT_MS, user_waited, u);
    question_send(g);
    return false;
}

/* ---- answers ---- */

/* Ends every use of it: waiting ones are told so, running ones are stopped. First it is taken out
 * of the table: an answer may start the next request of its connection. */
static void grant_end(struct grant *g)
{
    grant_unlink(g);
    while (g->users) {
        struct grant_user *u = g->users;
        bool was_waiting = u->is_waiting;

        user_unlink(u);
        if (was_waiting) {
            u->answered(u->ctx, GRANT_UNKNOWN);
        } else {
            u->revoked(u->ctx);
        }
    }
    grant_wipe(g);
}

static void answer_take(struct grant *g, const struct record *r)
{
    struct str task_id = record_get(r, "task_id");

    forget_answer(g);
    g->task_id = mem_dup(task_id.ptr, task_id.len);
    g->keys = grant_keys_read(r);
    if (!record_get_u64(r, "requests_per_minute", RATE_MAX, &g->requests_per_minute)) {
        g->requests_per_minute = 0;
    }
    g->is_ok = true;
    g->is_stale = false;
}

static void tell_waiting(struct grant *g)
{
    for (struct grant_user *u = g->users, *next; u; u = next) {
        next = u->next;
        if (u->is_waiting) {
            loop_deadline_clear(&u->deadline);
            u->is_waiting = false;
            u->answered(u->ctx, GRANT_OK);
        }
    }
}

static void take_grant(const struct record *r)
{
    struct grant *g = grants.first;
    uint64_t n = 0;

    if (!record_get_u64(r, "n", INT64_MAX, &n) || n == 0) {
        return;
    }
    while (g && g->question != n) {
        g = g->next;
    }
    if (!g) {
        return; /* who asked has left */
    }
    g->question = 0;
    if (!str_is(record_get(r, "status"), "ok")) {
        grant_end(g);
        return;
    }
    answer_take(g, r);
    tell_waiting(g);
}

static void take_revoke(const struct record *r)
{
    struct str task_id = record_get(r, "task_id");

    struct grant *g = grants.first;

    while (g && task_id.len > 0) {
        if (g->is_ok && str_is(task_id, g->task_id)) {
            grant_end(g);
            g = grants.first; /* its users may have changed the table */
        } else {
            g = g->next;
        }
    }
}

/* What runs goes on with the key it has; a question that is out may have been answered with the old
 * one. */
static void take_changed(void)
{
    for (struct grant *g = grants.first; g; g = g->next) {
        g->is_stale = true;
        if (g->question != 0) {
            g->question = 0;
            question_send(g);
        }
    }
}

bool grants_take(const struct record *r)
{
    if (record_is(r, "grant")) {
        take_grant(r);
    } else if (record_is(r, "revoke")) {
        take_revoke(r);
    } else if (record_is(r, "changed")) {
        take_changed();
    } else {
        return false;
    }
    return true;
}

/* Everything is asked again: what waits, and what may have been revoked while nobody could tell us.
 */
void grants_broker_up(void)
{
    grants.down_since_ms = 0;
    for (struct grant *g = grants.first; g; g = g->next) {
        g->question = 0;
        question_send(g);
    }
}

void grants_broker_down(void)
{
    grants.down_since_ms = loop_now_ms();
    for (struct grant *g = grants.first; g; g = g->next) {
        g->question = 0;
    }
}
