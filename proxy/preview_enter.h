/*
 * /.sandboxd/enter?ticket=…&to=/path: a ticket of the console's is exchanged at sandboxd for a
 * pass, which the browser gets as a cookie on its way to that path. Main thread.
 */
#pragma once

#include "lib/record.h"
#include "proxy/preview_visit.h"

void enter_init(struct broker *broker);
/* Whether that target is this file's. */
bool enter_is_target(struct str target);
/* Ends the exchange, now or when sandboxd has answered. The same for a sandbox that is not there.
 */
void enter_begin(struct exchange *x, const struct preview_host *host);
/* pass{n, …}; false when it answers no question of this file. */
bool enter_take(const struct record *r);
/* The visit is over: nobody waits for the answer. */
void enter_left(struct visit *v);
/* The service leaves: 503. */
void enter_drain(struct visit *v);
/* sandboxd is away: its answers will not come. */
void enter_broker_down(void);
