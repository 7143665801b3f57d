/*
 * HTTP client: the blocking half of the one wrapper of libcurl (fetch_multi.h has the event-loop
 * half).
 *
 * A handle is used by one thread at a time and keeps its connection. Redirects are never followed,
 * no proxy of the environment is used, CR and LF in header values are refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/buf.h"
#include "lib/err.h"
#include "lib/mem.h"
#include "lib/str.h"

struct fetch; /* one reusable handle */

/* Once per process, before threads. */
int fetch_global_init(struct err *e) MUST_CHECK;

struct fetch *fetch_new(void) __attribute__((returns_nonnull));
void fetch_free(struct fetch *f);

/* Returns bytes taken, or less to abort. */
typedef size_t (*fetch_data_fn)(const char *bytes, size_t len, void *ctx);
/* Fills buf with at most len bytes of the body; 0 at its end, (size_t)-1 to abort. */
typedef size_t (*fetch_body_fn)(char *bytes, size_t len, void *ctx);
/* True: give up (asked about once a second). */
typedef bool (*fetch_cancel_fn)(void *ctx);

struct fetch_request {
    const char *method;         /* "GET", … */
    const char *url;            /* http://… or https://… */
    const char *unix_socket;    /* path, or NULL */
    const char *const *headers; /* "Name: value", ended by NULL; or NULL */
    struct str body;            /* sent when not empty or when send_body is set */
    bool send_body;
    fetch_body_fn body_fn;      /* streams the body chunked instead; or NULL */
    int64_t timeout_ms;         /* whole exchange; 0: none */
    int64_t connect_timeout_ms; /* 0: 2,000 */
    int64_t idle_timeout_ms;    /* nothing received for that long; 0: none */
    size_t answer_max;          /* bytes kept in the answer's body; more is ERR_LIMIT */
    fetch_data_fn data_fn;      /* streams the answer instead of keeping it; or NULL */
    fetch_cancel_fn cancel_fn;
    int stop_fd; /* above 0: give up when it can be read. Asks nobody each second: for a stream
                  * that is followed for ever */
    void *ctx;
};

struct fetch_answer {
    long status;
    struct buf body; /* reset by fetch_perform */
};

/* ERR_UNAVAILABLE cannot connect, ERR_TIMEOUT, ERR_CANCELLED, ERR_LIMIT, ERR_IO. An HTTP status is
 * no error. Blocks. */
int fetch_perform(struct fetch *f, const struct fetch_request *request, struct fetch_answer *ret,
                  struct err *e) MUST_CHECK;
void fetch_answer_done(struct fetch_answer *a);

#define FETCH_ANSWER_BYTES_DEFAULT (1024UL * 1024)
/* FETCH_ANSWER_AUTO(answer); declares and initialises, freed at scope end: on whatever way out. */
#define FETCH_ANSWER_AUTO(name)                                              \
    struct fetch_answer name __attribute__((cleanup(fetch_answer_done))) = { \
        .body = {.ptr = buf_empty_, .max = FETCH_ANSWER_BYTES_DEFAULT}}

AUTO_DEFINE(fetch, fetch_free);
