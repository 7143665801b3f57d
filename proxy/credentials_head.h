/*
 * Heads on their way to a provider and back: what is taken out, what is put in. Pure.
 */
#pragma once

#include <stdbool.h>

#include "lib/buf.h"
#include "proxy/http_head.h"

/* The token of whichever key header there is: authorization (after "Bearer "), x-api-key,
 * x-goog-api-key. ptr NULL: none. */
struct str credentials_token(const struct head *request);
/* Whether a request's field stays here: every key header, hop-by-hop, framing, and what would
 * change the answer's form. */
bool credentials_drops_request_field(const struct head *request, struct str name);
/* Appends an answer's field as a line, or leaves it out, or with a bounded retry-after. */
void credentials_answer_field(struct buf *out, struct str name, struct str value);
/* Fields of ours by status: nobody should ask again what cannot work. */
void credentials_answer_advice(struct buf *out, unsigned status);
