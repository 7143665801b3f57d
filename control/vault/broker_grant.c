/*
 * Grants for the credentials proxy: the only place where a key leaves the vault; it must never log
 * one. The broker's thread.
 */
#include <stdio.h>

#include "control/vault/vault_private.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/mem.h"

#define GRANT_WAIT_MS     25000 /* for a renewal; below what the proxy waits for an answer */
#define GRANT_WAITING_MAX 256

/* ---- one provider ---- */

static void grant_add_paths(struct record_writer *w, const struct vault_provider *p)
{
    for (size_t i = 0; p->paths[i]; i++) {
        record_adds(w, "path", p->paths[i]);
        if (p->usages[i][0]) {
            record_adds(w, "usage", p->usages[i]);
        }
        if (p->costs[i][0]) {
            record_adds(w, "cost", p->costs[i]);
        }
    }
}

static void grant_add_key(struct record_writer *w, const struct vault_provider *p,
                          const struct vault_secret *secret)
{
    bool login = secret->method == VAULT_LOGIN && p->oauth;
    bool none = secret->method == VAULT_NO_KEY;
    record_adds(w, "header", none ? "" : login ? p->oauth->header : p->header);
    record_adds(w, "prefix", none ? "" : login ? p->oauth->prefix : p->prefix);
    record_add(w, "key", buf_str(&secret->key));
    if (login && p->oauth->extra[0]) {
        record_adds(w, "extra", p->oauth->extra);
    }
    record_adds(w, "state", secret->reconnect ? "reconnect" : "ok");
    if (secret->reconnect) {
        record_adds(w, "message", secret->message);
    }
}

static void grant_add_provider(struct vault *v, struct record_writer *w,
                               const struct vault_provider *p, bool keyless)
{
    struct vault_secret secret;
    struct err e;
    secret_init(&secret);
    if (keyless || secret_read(v, p->id, &secret, &e) == 0) {
        record_adds(w, "provider", p->id);
        record_adds(w, "base_url", p->base_url);
        grant_add_key(w, p, &secret);
        grant_add_paths(w, p);
    } else {
        log_warn("a stored key cannot be used", "provider", p->id, "error", e.msg);
    }
    secret_done(&secret);
}

static void grant_add_providers(struct vault *v, struct record_writer *w,
                                const struct vault_agent *agent)
{
    const char *ids[VAULT_PROVIDERS_MAX + 1];
    vault_agent_providers(v, agent, ids);
    for (size_t i = 0; ids[i]; i++) {
        const struct vault_provider *p = vault_provider_find(v, str_of(ids[i]));
        if (!p) {
            continue; /* removed in this moment */
        }
        bool connected = vault_credential_get(v, p->id).method != VAULT_NO_KEY;
        bool native = strcmp(p->id, agent->native_provider) == 0;
        if (connected || p->keyless || (native && agent->keyless)) {
            grant_add_provider(v, w, p, !connected);
        }
    }
}

/* ---- waiting for a renewal ---- */

static bool grant_must_wait(struct vault *v, const struct vault_agent *agent)
{
    const char *ids[VAULT_PROVIDERS_MAX + 1];
    vault_agent_providers(v, agent, ids);
    for (size_t i = 0; ids[i]; i++) {
        struct vault_credential c = vault_credential_get(v, ids[i]);
        if (renewal_is_due(&c) && !c.message[0]) {
            return true;
        }
    }
    return false;
}

static void grant_waiting_free(struct vault_waiting *w)
{
    mem_wipe(w->frame, w->len);
    free(w->frame);
    free(w);
}

/* Keeps the question; false when too many wait. */
static bool grant_wait(struct vault *v, const struct vault_connection *c, struct str frame)
{
    size_t count = 0;
    for (const struct vault_waiting *w = v->waiting; w; w = w->next) {
        count++;
    }
    if (count >= GRANT_WAITING_MAX) {
        return false;
    }
    struct vault_waiting *w = mem_alloc(sizeof(*w));
    *w = (struct vault_waiting){.next = v->waiting,
                                .connection = c->serial,
                                .until_ms = clock_mono_ms() + GRANT_WAIT_MS,
                                .frame = mem_dup(frame.ptr, frame.len),
                                .len = frame.len};
    v->waiting = w;
    renewal_wake(v);
    return true;
}

void broker_grant_forget(struct vault *v, uint64_t connection)
{
    for (struct vault_waiting **at = &v->waiting; *at;) {
        struct vault_waiting *w = *at;
        if (w->connection == connection) {
            *at = w->next;
            grant_waiting_free(w);
        } else {
            at = &w->next;
        }
    }
}

int broker_grant_wait_ms(const struct vault *v)
{
    int64_t first = -1;
    for (const struct vault_waiting *w = v->waiting; w; w = w->next) {
        first = first < 0 || w->until_ms < first ? w->until_ms : first;
    }
    return first < 0 ? -1 : clock_until(first);
}

/* ---- the answer ---- */

static int grant_answer(struct vault *v, struct vault_connection *c, const struct record *r,
                        const struct ulid *task, const struct vault_agent *agent)
{
    struct record_writer w = record_begin(&c->out, "grant");
    record_add(&w, "n", str_cut(record_get(r, "n"), 0, 20));
    record_adds(&w, "status", agent ? "ok" : "unknown");
    if (agent) {
        record_adds(&w, "task_id", task->text);
        record_addn(&w, "requests_per_minute", v->config->requests_per_minute);
        grant_add_providers(v, &w, agent);
    }
    return record_end(&w) ? 0 : -1;
}

static const struct vault_agent *grant_find(struct vault *v, const struct record *r,
                                            struct ulid *ret_task)
{
    struct ulid sandbox;
    const struct vault_agent *agent = NULL;
    bool known = ulid_parse(record_get(r, "sandbox_id"), &sandbox) &&
                 vault_find_grant(v, record_get(r, "token"), &sandbox, ret_task, &agent);
    return known ? agent : NULL;
}

int broker_grant(struct vault *v, struct vault_connection *c, const struct record *r,
                 struct str frame)
{
    struct ulid task = {""};
    const struct vault_agent *agent = grant_find(v, r, &task);
    if (agent && grant_must_wait(v, agent) && grant_wait(v, c, frame)) {
        return 0;
    }
    return grant_answer(v, c, r, &task, agent);
}

static void grant_answer_late(struct vault *v, const struct vault_waiting *w)
{
    struct vault_connection *c = broker_find(v, w->connection);
    struct record r;
    struct err e;
    struct ulid task = {""};
    if (!c || record_parse(str_n(w->frame, w->len), &r, &e) != 0) {
        return;
    }
    const struct vault_agent *agent = grant_find(v, &r, &task);
    if (grant_answer(v, c, &r, &task, agent) != 0) {
        broker_drop(v, c);
    }
}

/* Takes one out that can be answered: the renewal is over, or has taken too long. */
static struct vault_waiting *grant_take_ready(struct vault *v)
{
    for (struct vault_waiting **at = &v->waiting; *at; at = &(*at)->next) {
        struct vault_waiting *w = *at;
        struct record r;
        struct err e;
        struct ulid task;
        bool parsed = record_parse(str_n(w->frame, w->len), &r, &e) == 0;
        const struct vault_agent *agent = parsed ? grant_find(v, &r, &task) : NULL;
        if (!agent || clock_mono_ms() >= w->until_ms || !grant_must_wait(v, agent)) {
            *at = w->next;
            return w;
        }
    }
    return NULL;
}

void broker_grant_waiting(struct vault *v)
{
    struct vault_waiting *w = NULL;
    while ((w = grant_take_ready(v)) != NULL) {
        grant_answer_late(v, w);
        grant_waiting_free(w);
    }
}
