/*
 * Giving passes. Must never give one for a session that has ended, or longer than that session
 * lasts. The broker's thread.
 */
#include "control/sandbox/passes.h"

#include <inttypes.h>
#include <stdio.h>

#include "control/sandbox/table.h"
#include "control/sandbox/tickets.h"
#include "control/store/access.h"
#include "control/vault/vault.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/thread.h"

#define PASS_LIFE_S (12LL * 3600)

/* The app of a sandbox that is there and, unless port is 0, declares that port. */
static bool passes_app_of(struct sandbox_service *s, const struct ulid *id, uint16_t port,
                          struct ulid *ret_app)
{
    LOCK_GUARD(&s->lock);
    const struct sandbox *b = table_live(s, id);
    bool found = b && port == 0;
    for (size_t i = 0; b && i < b->port_count; i++) {
        found = found || b->ports[i] == port;
    }
    if (found) {
        *ret_app = b->app_id;
    }
    return found;
}

static void passes_answer(struct buf *out, const struct record *r, const struct ulid *id,
                          const struct buf *pass, int64_t max_age_s)
{
    struct record_writer w = record_begin(out, "pass");
    record_add(&w, "n", record_get(r, "n"));
    record_adds(&w, "id", id->text);
    if (pass) {
        record_add(&w, "pass", buf_str(pass));
        record_addn(&w, "max_age_s", max_age_s);
    } else {
        record_adds(&w, "message", "this ticket is not good, or was used");
    }
    (void)record_end(&w);
}

/* session is "" for an API token's. */
static void passes_give(struct sandbox_service *s, const struct record *r, const struct ulid *id,
                        const struct ulid *app, const char *session, struct buf *out)
{
    BUF_AUTO(text, PASS_BYTES_MAX);
    struct pass pass = {.sandbox = *id};
    int64_t now_s = clock_unix_ms() / 1000;
    int64_t session_ms = 0;
    int64_t epoch = 0;
    struct err e;
    if (access_enter(s->db, session, app, &session_ms, &epoch, &e) != 0) {
        if (e.code != ERR_UNAUTHORIZED && e.code != ERR_NOT_FOUND) {
            log_error("cannot note who goes into a preview", "sandbox_id", id->text, "error",
                      e.msg);
        }
        passes_answer(out, r, id, NULL, 0);
        return;
    }
    pass.epoch = (uint64_t)epoch;
    pass.expires_s = now_s + PASS_LIFE_S;
    if (session_ms / 1000 < pass.expires_s) {
        pass.expires_s = session_ms / 1000;
    }
    (void)snprintf(pass.session, sizeof(pass.session), "%s",
                   session[0] ? session : PASS_NO_SESSION);
    vault_sign_pass(s->vault, &pass, &text);
    passes_answer(out, r, id, &text, pass.expires_s - now_s);
}

void passes_enter(struct sandbox_service *s, const struct record *r, const struct ulid *id,
                  struct buf *out)
{
    char session[ACCESS_SESSION_BYTES] = "";
    uint64_t port = 0;
    struct ulid app;
    bool good = tickets_take(s->tickets, record_get(r, "ticket"), id, clock_mono_ms(), session) &&
                record_get_u64(r, "port", UINT16_MAX, &port) && port > 0 &&
                passes_app_of(s, id, (uint16_t)port, &app);
    if (!good) {
        passes_answer(out, r, id, NULL, 0);
        return;
    }
    passes_give(s, r, id, &app, session, out);
    /* The pass names the epoch of now: the proxy must know it when the browser comes back. */
    sandbox_access_changed(s, &app);
}

/* Only what was given to a session is given anew: an API token's pass ends by itself. */
void passes_renew(struct sandbox_service *s, const struct record *r, const struct ulid *id,
                  struct buf *out)
{
    uint8_t key[CRYPTO_KEY_BYTES];
    struct pass pass;
    struct ulid app;
    vault_preview_public(s->vault, key);
    bool good = pass_verify(record_get(r, "pass"), key, &pass) && ulid_eq(&pass.sandbox, id) &&
                pass.expires_s > clock_unix_ms() / 1000 &&
                strcmp(pass.session, PASS_NO_SESSION) != 0 && passes_app_of(s, id, 0, &app);
    struct access_row now;
    struct err e;
    if (!good || access_get(s->db, &app, &now, &e) != 0 || (uint64_t)now.epoch != pass.epoch) {
        passes_answer(out, r, id, NULL, 0);
        return;
    }
    passes_give(s, r, id, &app, pass.session, out);
}

int sandbox_ticket(struct sandbox_service *s, const struct ulid *id, uint16_t port,
                   const char *session, struct buf *ret_ticket, struct err *e)
{
    struct ulid app;
    if (!passes_app_of(s, id, 0, &app)) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no sandbox %s", id->text);
    }
    if (!passes_app_of(s, id, port, &app)) {
        return err_set(e, ERR_INVALID, 0, "the port %u is not among the sandbox's ports",
                       (unsigned)port);
    }
    tickets_issue(s->tickets, id, session, clock_mono_ms(), ret_ticket);
    return 0;
}
