/*
 * Who may load a preview: one question, asked before anything is woken. Main thread.
 */
#pragma once

#include <stdbool.h>

#include "proxy/front.h"
#include "proxy/preview_routes.h"

/* Public previews are everybody's. A private one is nobody's yet: whoever asks is told that it is
 * unknown. */
bool access_is_allowed(const struct route *r, const struct exchange *x);
