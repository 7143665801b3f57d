/*
 * Credentials of ours that a visitor may carry by mistake or by a browser's doing: none of them
 * reaches an app.
 *
 * Main thread.
 */
#pragma once

#include <stdbool.h>

#include "lib/buf.h"
#include "lib/record.h"

/* Reads api_token… (SHA-256, hex) of sandboxd's settings record; replaces what was known. */
void secrets_take(const struct record *settings);
/* Whether the value of an Authorization field is an API token of this installation. */
bool secrets_has_token(struct str authorization);
/* Whether a Cookie field holds a cookie of ours. */
bool secrets_has_cookie(struct str cookies);
/* Appends the field's value without them; may append nothing. */
void secrets_add_cookies(struct buf *out, struct str cookies);
