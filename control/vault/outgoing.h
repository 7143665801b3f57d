/*
 * One request of ours to a provider, made by sandboxd-fetch: a program that lives for that request
 * alone. So this process keeps no HTTP and TLS client in memory, and what a provider answers is
 * read beside none of its keys but the one that was sent. Worker threads; each call is a process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/buf.h"
#include "lib/err.h"

struct outgoing_request {
    const char *method;
    const char *url;
    const char *const *headers; /* "Name: value", ended by NULL; go through a pipe only */
    struct str body;            /* ptr NULL: none */
    int64_t timeout_ms;         /* of the exchange; the process gets a little more */
    size_t answer_max;          /* bytes; more is ERR_PROTOCOL, */
    bool cut;                   /* or left out */
};

struct outgoing_answer {
    long status;
    struct buf body; /* outgoing_done wipes and frees it, on failure too */
};

/* Blocks. ERR_UNAVAILABLE cannot connect, or the program was ended, or too many run; ERR_TIMEOUT,
 * ERR_PROTOCOL, ERR_IO. An HTTP status is no error. */
int outgoing_perform(const struct outgoing_request *request, struct outgoing_answer *ret,
                     struct err *e) MUST_CHECK;
void outgoing_done(struct outgoing_answer *a);
/* The part of it that reads what the program wrote: hostile bytes, as it reads such. ERR_PROTOCOL,
 * and what the program says. The body is copied. */
int outgoing_take(const struct buf *bytes, struct outgoing_answer *ret, struct err *e) MUST_CHECK;
