/*
 * Passes to previews, as the proxy's broker gives them: for a ticket, or for a pass that ends soon.
 *
 * The broker's thread; both write one row.
 */
#pragma once

#include "control/sandbox/sandbox.h"
#include "lib/record.h"

/* enter{n, id, port, ticket} and renew{n, id, pass} to pass{n, id, pass, max_age_s} or, when there
 * is none to be had, pass{n, id, message}. */
void passes_enter(struct sandbox_service *s, const struct record *r, const struct ulid *id,
                  struct buf *out);
void passes_renew(struct sandbox_service *s, const struct record *r, const struct ulid *id,
                  struct buf *out);
