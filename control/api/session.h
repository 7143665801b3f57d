/*
 * Console sign-in: one-time codes, the password, sessions.
 */
#pragma once

#include "control/store/db.h"
#include "lib/buf.h"
#include "lib/err.h"

/* Makes a new one-time code, ends all sessions, and is an event. Appends the code. For `sandboxd
 * console-code`. */
int session_new_code(struct db *db, struct buf *ret_code, struct err *e) MUST_CHECK;
