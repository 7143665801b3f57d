/*
 * Tickets to previews: random, for one sandbox and one session, good once and for 30 s. Kept in
 * memory only: who lost one to a restart asks for another.
 *
 * Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "control/store/access.h"
#include "lib/buf.h"
#include "lib/ulid.h"

#define TICKETS_MAX    256
#define TICKET_LIFE_MS 30000
#define TICKET_BYTES   32

struct tickets;

struct tickets *tickets_new(void);
void tickets_free(struct tickets *t);
/* Appends the ticket; an empty session is an API token's. Of too many the oldest is forgotten. */
void tickets_issue(struct tickets *t, const struct ulid *sandbox, const char *session,
                   int64_t now_ms, struct buf *ret_ticket);
/* Whether it was good for that sandbox now. It is spent in any case. */
bool tickets_take(struct tickets *t, struct str ticket, const struct ulid *sandbox, int64_t now_ms,
                  char ret_session[ACCESS_SESSION_BYTES]);
