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
/* Says that nobody should ask again. */
void credentials_answer_last_word(struct buf *out);
/* Appends a provider's own field as a line, joined to what the client sent under that name. */
void credentials_extra_field(struct buf *out, const struct head *request, struct str line);
/* Whether a field of that name is sent by one of the extra lines. */
bool credentials_is_extra(const char *const *lines, unsigned count, struct str name);
