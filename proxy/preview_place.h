/*
 * Where a preview stands for the browser that asks: by TLS or not, under which name our cookie
 * goes, and where its console is. Main thread.
 */
#pragma once

#include <stdbool.h>

#include "lib/buf.h"
#include "proxy/front.h"
#include "proxy/preview_host.h"

/* Whether the browser speaks TLS to that host. */
bool place_is_tls(const struct preview_host *host);
/* Whether the browser takes a Secure cookie: TLS, or a localhost name. */
bool place_is_secure(const struct preview_host *host);
/* Static. */
const char *place_cookie_name(const struct preview_host *host);
/* Appends the console's origin, with the port that the person uses. */
void place_add_console(const struct exchange *x, const struct preview_host *host, struct buf *out);
