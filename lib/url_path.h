/*
 * Paths of a preview that somebody names inside a query or a body: read strictly, written so that
 * they cannot end what they stand in. Pure.
 */
#pragma once

#include <stdbool.h>

#include "lib/buf.h"
#include "lib/str.h"

/* A path of this very host: one slash first and no second one, visible ASCII, no backslash, no
 * fragment, and none of ours. */
bool url_path_is_local(struct str path);
/* Appends the text without its percent escapes; false for a malformed one. */
bool url_path_unescape(struct str text, struct buf *out);
/* Appends it escaped for a query's value; slashes stay. */
void url_path_escape(struct str text, struct buf *out);
/* The value of a parameter of a query, as sent; false when it is not there exactly once. */
bool url_path_parameter(struct str query, struct str name, struct str *ret_value);
