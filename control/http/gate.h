/*
 * The strict gate: refuses what civetweb lets through (ambiguous lengths, dropped headers, missing
 * Host, absolute form).
 */
#pragma once

#include "lib/err.h"

struct mg_request_info;

/* ERR_INVALID or ERR_LIMIT with a sentence for the client. Pure. */
int gate_check(const struct mg_request_info *info, struct err *e) MUST_CHECK;
