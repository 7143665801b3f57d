/*
 * The head of a request as an app gets it: what a visitor sent, without what is ours or one
 * connection's, and with what only we know.
 *
 * Pure but for the settings of the route table. Main thread.
 */
#pragma once

#include <stdbool.h>

#include "lib/buf.h"
#include "proxy/preview_visit.h"

/* Whether it asks for another protocol that we let through. */
bool request_wants_upgrade(const struct visit *v);
/* Appends the whole head, with the empty line. */
void request_build_head(const struct visit *v, struct buf *out);
