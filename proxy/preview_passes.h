/*
 * Passes that browsers show us as cookies: verified with the public key alone, remembered so that a
 * page of a hundred requests costs one verification, renewed in passing.
 *
 * Main thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/pass.h"
#include "lib/record.h"
#include "proxy/broker.h"
#include "proxy/http_head.h"
#include "proxy/preview_host.h"

void passes_init(struct broker *broker);

/* The epoch and the number of the pass for that host's sandbox among a request's cookies; false
 * when none is good now. Asks for a new one when it ends soon: nobody waits for that. */
struct passes_found {
    uint64_t epoch;
    uint64_t number;
};

bool passes_find(const struct head *request, const struct preview_host *host,
                 struct passes_found *ret);
/* Appends a Set-Cookie line when that pass was renewed meanwhile. */
void passes_add_renewed(uint64_t number, const struct preview_host *host, struct buf *fields);
/* Appends the Set-Cookie line of a pass. False, and nothing, when it is none of that sandbox's. */
bool passes_add_cookie(struct str pass, int64_t max_age_s, const struct preview_host *host,
                       struct buf *fields);
/* pass{n, id, pass, max_age_s}, the answer to a renewal; others are none of its business. */
void passes_take(const struct record *r);
