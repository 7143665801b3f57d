/*
 * Tickets to previews. Must never keep a ticket itself, only its hash. Any thread.
 */
#include "control/sandbox/tickets.h"

#include <pthread.h>
#include <stdio.h>

#include "lib/crypto.h"
#include "lib/mem.h"
#include "lib/thread.h"

struct ticket {
    char hash[CRYPTO_SHA256_HEX]; /* "" when free */
    struct ulid sandbox;
    char session[ACCESS_SESSION_BYTES];
    int64_t until_ms;
};

struct tickets {
    pthread_mutex_t lock;
    struct ticket list[TICKETS_MAX];
    size_t next; /* the oldest */
};

struct tickets *tickets_new(void)
{
    struct tickets *t = mem_alloc(sizeof(*t));
    (void)pthread_mutex_init(&t->lock, NULL);
    return t;
}

void tickets_free(struct tickets *t)
{
    if (t) {
        (void)pthread_mutex_destroy(&t->lock);
        free(t);
    }
}

void tickets_issue(struct tickets *t, const struct ulid *sandbox, const char *session,
                   int64_t now_ms, struct buf *ret_ticket)
{
    size_t from = ret_ticket->len;
    crypto_token(ret_ticket, "", TICKET_BYTES);
    LOCK_GUARD(&t->lock);
    struct ticket *slot = &t->list[t->next];
    t->next = (t->next + 1) % TICKETS_MAX;
    *slot = (struct ticket){.sandbox = *sandbox, .until_ms = now_ms + TICKET_LIFE_MS};
    (void)snprintf(slot->session, sizeof(slot->session), "%s", session);
    crypto_sha256_hex(str_cut(buf_str(ret_ticket), from, ret_ticket->len), slot->hash);
}

bool tickets_take(struct tickets *t, struct str ticket, const struct ulid *sandbox, int64_t now_ms,
                  char ret_session[ACCESS_SESSION_BYTES])
{
    char hash[CRYPTO_SHA256_HEX];
    crypto_sha256_hex(ticket, hash);
    LOCK_GUARD(&t->lock);
    for (size_t i = 0; i < TICKETS_MAX; i++) {
        struct ticket *slot = &t->list[i];
        if (strcmp(slot->hash, hash) != 0) {
            continue;
        }
        bool good = now_ms < slot->until_ms && ulid_eq(&slot->sandbox, sandbox);
        (void)snprintf(ret_session, ACCESS_SESSION_BYTES, "%s", slot->session);
        *slot = (struct ticket){0};
        return good;
    }
    return false;
}
