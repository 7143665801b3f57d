/*
 * What a visitor gets from us instead of the app: a page for a person's page load, JSON for
 * everything else.
 *
 * Every function ends the exchange. Main thread.
 */
#pragma once

#include "proxy/front.h"
#include "proxy/preview_host.h"
#include "proxy/preview_routes.h"

/* code and message for JSON and page alike; message is one sentence for anyone. retry_after_s 0: no
 * Retry-After. */
void pages_refuse(struct exchange *x, unsigned status, const char *code, const char *message,
                  int64_t retry_after_s, bool is_page);
/* 401 with the way in: the console's address that fetches a ticket. */
void pages_sign_in(struct exchange *x, const char *message, const char *console, bool is_page);
/* The page that waits and moves on by itself. */
void pages_warm_up(struct exchange *x, const struct route *r, const struct preview_host *host,
                   int64_t elapsed_ms);

/* Why it did not start; lines (NULL: none) are for the owner's eyes, who asks decides. */
struct pages_failure {
    const char *message, *lines;
    int64_t retry_after_s;
};

void pages_failed(struct exchange *x, const struct pages_failure *failure, bool is_page);
/* 503 for a request whose time to wait is over. */
void pages_late(struct exchange *x, const char *phase, const char *message, int64_t retry_after_s);
/* {state, phase, text, reason, detail, elapsed_ms, usual_ms}; detail for a localhost name only. */
void pages_poll(struct exchange *x, const char *state, const struct route *r,
                const struct preview_host *host, int64_t elapsed_ms);
/* "waiting for port 3000", …: where a start is. Writes into text. */
#define PAGES_PHASE_BYTES 64
const char *pages_phase(const struct route *r, uint16_t port, char text[PAGES_PHASE_BYTES]);
