/*
 * Who may load a preview: one question, asked before anything is woken or said. Another kind of
 * access would be another way to an answer here. Main thread.
 */
#pragma once

#include <stdbool.h>

#include "proxy/front.h"
#include "proxy/preview_host.h"
#include "proxy/preview_routes.h"

struct visit;

/* What a request brought along; kept with its visit, because access may change meanwhile. */
struct access {
    bool has_pass;
    uint64_t epoch;       /* of the pass */
    uint64_t pass_number; /* for its renewal */
};

/* Looks at a request for that host, whether or not there is such a sandbox. */
void access_look(const struct exchange *x, const struct preview_host *host, struct access *ret);
/* Public previews are everybody's; a private one is for who has a pass of its epoch. */
bool access_is_allowed(const struct route *r, const struct access *a);
/* Whether a visit is the owner's own, on a public preview too: what strangers must not see may be
 * shown. */
bool access_is_owner(const struct visit *v);
/* Ends the exchange, in the same words whether the preview is forbidden, not declared or not there:
 * a person's page load is sent to the console for a ticket, everything else is 401. */
void access_refuse(struct exchange *x, const struct preview_host *host);
/* Fields of ours on an app's answer: a renewed pass, and who may frame a private preview. */
void access_add_fields(const struct visit *v, struct buf *fields);
/* The row changed: ends whatever may not go on. */
void access_route_changed(struct route *r);
