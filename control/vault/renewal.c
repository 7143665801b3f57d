/*
 * Renewal of logins: one thread, so that a refresh token is used once however many tasks run. What
 * the provider answers is sealed on disk before anybody uses it; that it was asked is, too. A
 * refusal is final until the owner connects again.
 */
#include <stdio.h>

#include "control/store/events.h"
#include "control/vault/vault_private.h"
#include "lib/clock.h"
#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define RENEWAL_AHEAD_MS       900000  /* before a token expires */
#define RENEWAL_URGENT_MS      60000   /* what asks for it now waits for the renewal */
#define RENEWAL_SLEEP_MAX_MS   3600000 /* the clock may be set */
#define RENEWAL_LEAST_MS       60000
#define RENEWAL_AGAIN_MS       15000 /* after a failure, doubled up to the next */
#define RENEWAL_AGAIN_MAX_MS   300000
#define RENEWAL_BODY_MAX       16384
#define RENEWAL_STORES_MAX     20
#define RENEWAL_STORE_AGAIN_MS 500
#define RENEWAL_DOUBT_MS       300000 /* between two renewals because a token was refused */

struct vault_renewal {
    pthread_mutex_t lock;
    pthread_cond_t work;
    bool asked;
    bool stopping;
    pthread_t thread;
    int64_t again_at_ms; /* the thread's own; 0: at once */
    int64_t pause_ms;
};

bool renewal_is_due(const struct vault_credential *c)
{
    return c->method == VAULT_LOGIN && !c->reconnect && c->expires_at > 0 &&
           c->expires_at - clock_unix_ms() < RENEWAL_URGENT_MS;
}

void renewal_doubt(struct vault *v, const char *provider)
{
    {
        LOCK_GUARD(&v->lock);
        int index = vault_slot_of(v, provider);
        struct vault_slot *slot = index >= 0 ? &v->slots[index] : NULL;
        int64_t now = clock_mono_ms();
        if (!slot || slot->credential.method != VAULT_LOGIN || slot->credential.reconnect ||
            (slot->doubted_ms > 0 && now - slot->doubted_ms < RENEWAL_DOUBT_MS)) {
            return;
        }
        slot->doubted_ms = now;
        slot->credential.expires_at = clock_unix_ms();
    }
    renewal_wake(v);
}

static void renewal_body(const struct vault_oauth *o, const struct vault_secret *secret,
                         struct buf *out)
{
    struct json_writer w;
    json_begin(&w, out);
    json_object(&w, NULL);
    json_text(&w, "grant_type", "refresh_token");
    json_str(&w, "refresh_token", buf_str(&secret->refresh));
    json_text(&w, "client_id", o->client_id);
    json_object_end(&w);
}

/* Only the owner can help; message says why. */
static void renewal_give_up(struct vault *v, const struct vault_provider *p,
                            struct vault_secret *secret)
{
    char payload[96];
    secret->reconnect = true;
    secret->renewing = false;
    mem_wipe(secret->key.ptr, secret->key.len);
    buf_reset(&secret->key);
    buf_reset(&secret->refresh);
    (void)snprintf(payload, sizeof(payload), "{\"provider\":\"%s\"}", p->id);
    events_add(v->db, &(struct event_row){
                          .kind = "provider.reconnect", .severity = "warning", .payload = payload});
}

static void renewal_refused(struct vault *v, const struct vault_provider *p,
                            struct vault_secret *secret, bool interrupted, const struct err *why)
{
    renewal_give_up(v, p, secret);
    (void)snprintf(secret->message, sizeof(secret->message),
                   "%s refused to renew the login%s (%.120s): connect again", p->label,
                   interrupted ? ", after a renewal that was interrupted" : "", why->msg);
}

/* Stores what came of it, unless the owner put something else there meanwhile. */
static int renewal_store(struct vault *v, const struct vault_provider *p,
                         const struct vault_secret *secret, struct err *e)
{
    LOCK_GUARD(&v->keys_lock);
    struct vault_credential now = vault_credential_get(v, p->id);
    if (now.method != VAULT_LOGIN || strcmp(now.key_id, secret->key_id) != 0) {
        return 0;
    }
    return secret_write(v, p->id, secret, e);
}

/* A rotated token that is not stored is lost: a full disk has its time. */
static int renewal_store_at_last(struct vault *v, const struct vault_provider *p,
                                 const struct vault_secret *secret)
{
    struct err e;
    for (int i = 0; i < RENEWAL_STORES_MAX; i++) {
        if (renewal_store(v, p, secret, &e) == 0) {
            return 0;
        }
        log_error("a renewed login could not be stored; it is tried again", "provider", p->id,
                  "error", e.msg);
        clock_sleep_ms(RENEWAL_STORE_AGAIN_MS);
    }
    return -1;
}

/* One exchange. -1: it may be tried again later. */
static int renewal_ask(struct vault *v, const struct vault_provider *p, struct vault_secret *secret)
{
    BUF_AUTO(body, RENEWAL_BODY_MAX);
    struct err e = {0};
    bool interrupted = secret->renewing;
    secret->renewing = true;
    if (renewal_store(v, p, secret, &e) != 0) {
        log_error("a login is not renewed: that it was asked could not be stored", "provider",
                  p->id, "error", e.msg);
        return -1;
    }
    renewal_body(p->oauth, secret, &body);
    int rc = login_ask(p->oauth, buf_str(&body), buf_str(&secret->refresh), secret, &e);
    mem_wipe(body.ptr, body.len);
    if (rc == 0) {
        secret->renewing = false;
        secret->message[0] = '\0';
    } else if (e.code == ERR_FORBIDDEN) {
        renewal_refused(v, p, secret, interrupted, &e);
        rc = 0;
    } else {
        /* An answer may have been lost on its way: then the token was rotated, and the next try
         * tells. */
        (void)snprintf(secret->message, sizeof(secret->message),
                       "the login could not be renewed yet (%.180s)", e.msg);
    }
    if (renewal_store_at_last(v, p, secret) != 0) {
        return -1;
    }
    log_info("a login's renewal is over", "provider", p->id, "message", secret->message);
    return rc;
}

/* Of a login that nothing renews: its end, or back to what its box says when it was but doubted. */
static int renewal_without(struct vault *v, const struct vault_provider *p,
                           struct vault_secret *secret)
{
    if (secret->expires_at - clock_unix_ms() < RENEWAL_URGENT_MS) {
        renewal_give_up(v, p, secret);
        (void)snprintf(secret->message, sizeof(secret->message),
                       "the login at %s ran out, and it came without a token that renews it: "
                       "connect again",
                       p->label);
    }
    return renewal_store_at_last(v, p, secret);
}

static bool renewal_wanted(const struct vault_credential *c)
{
    return c->method == VAULT_LOGIN && !c->reconnect && c->expires_at > 0 &&
           c->expires_at - clock_unix_ms() < RENEWAL_AHEAD_MS;
}

static int renewal_one(struct vault *v, const struct vault_provider *p)
{
    struct vault_credential c = vault_credential_get(v, p->id);
    struct vault_secret secret;
    struct err e;
    if (!p->oauth || !renewal_wanted(&c)) {
        return 0;
    }
    secret_init(&secret);
    int rc = secret_read(v, p->id, &secret, &e);
    bool same = rc == 0 && strcmp(secret.key_id, c.key_id) == 0;
    if (same && secret.refresh.len > 0) {
        rc = renewal_ask(v, p, &secret);
    } else if (same && renewal_is_due(&c)) {
        rc = renewal_without(v, p, &secret);
    }
    secret_done(&secret);
    return rc;
}

static void renewal_all(struct vault *v)
{
    const struct vault_provider *all[VAULT_PROVIDERS_MAX];
    struct vault_renewal *r = v->renewal;
    size_t count = vault_provider_list(v, all);
    int rc = 0;
    if (clock_mono_ms() < r->again_at_ms) {
        return; /* a provider that is down is not asked by every task */
    }
    for (size_t i = 0; i < count; i++) {
        rc |= renewal_one(v, all[i]);
    }
    if (rc == 0) {
        r->pause_ms = 0;
        r->again_at_ms = 0;
        return;
    }
    r->pause_ms = r->pause_ms == 0 ? RENEWAL_AGAIN_MS : r->pause_ms * 2;
    r->pause_ms = r->pause_ms < RENEWAL_AGAIN_MAX_MS ? r->pause_ms : RENEWAL_AGAIN_MAX_MS;
    r->again_at_ms = clock_mono_ms() + r->pause_ms;
}

/* Milliseconds until the first login wants to be renewed. */
static int64_t renewal_sleep_ms(struct vault *v)
{
    const struct vault_provider *all[VAULT_PROVIDERS_MAX];
    size_t count = vault_provider_list(v, all);
    int64_t least = RENEWAL_SLEEP_MAX_MS;
    for (size_t i = 0; i < count; i++) {
        struct vault_credential c = vault_credential_get(v, all[i]->id);
        int64_t left = c.expires_at - clock_unix_ms() - RENEWAL_AHEAD_MS;
        if (c.method == VAULT_LOGIN && !c.reconnect && c.expires_at > 0 && left < least) {
            least = left;
        }
    }
    return least > RENEWAL_LEAST_MS ? least : RENEWAL_LEAST_MS;
}

static bool renewal_wait(struct vault *v)
{
    struct vault_renewal *r = v->renewal;
    int64_t until = clock_mono_ms() + renewal_sleep_ms(v);
    LOCK_GUARD(&r->lock);
    if (r->again_at_ms > 0) {
        until = r->again_at_ms;
    }
    while (!r->asked && !r->stopping && thread_cond_wait_until(&r->work, &r->lock, until)) {
    }
    r->asked = false;
    return !r->stopping;
}

static void *renewal_run(void *vault)
{
    struct vault *v = vault;
    do {
        renewal_all(v);
    } while (renewal_wait(v));
    return NULL;
}

void renewal_start(struct vault *v)
{
    struct vault_renewal *r = mem_alloc(sizeof(*r));
    (void)pthread_mutex_init(&r->lock, NULL);
    thread_cond_init(&r->work);
    v->renewal = r;
    r->thread = thread_start("vault-renewal", renewal_run, v);
}

void renewal_wake(struct vault *v)
{
    struct vault_renewal *r = v->renewal;
    LOCK_GUARD(&r->lock);
    r->asked = true;
    (void)pthread_cond_signal(&r->work);
}

void renewal_stop(struct vault *v)
{
    struct vault_renewal *r = v->renewal;
    if (!r) {
        return;
    }
    {
        LOCK_GUARD(&r->lock);
        r->stopping = true;
        (void)pthread_cond_broadcast(&r->work);
    }
    (void)pthread_join(r->thread, NULL);
    v->renewal = NULL;
    (void)pthread_mutex_destroy(&r->lock);
    (void)pthread_cond_destroy(&r->work);
    free(r);
}
