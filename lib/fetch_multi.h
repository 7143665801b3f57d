/*
 * HTTP client: the event-loop half of the one wrapper of libcurl. Many exchanges at once, streamed
 * both ways with back-pressure, HTTP/2 where the server has it, connections reused.
 *
 * Knows no event loop: its owner watches descriptors and a timer for it. Everything of one
 * fetch_multi belongs to one thread. Redirects are never followed, no proxy of the environment is
 * used, TLS is verified, nothing is decoded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/err.h"
#include "lib/str.h"

struct fetch_multi;
struct fetch_stream;

#define FETCH_WATCH_READ  1U
#define FETCH_WATCH_WRITE 2U

struct fetch_multi_hooks {
    /* Watch fd for `what`; 0: no more, the descriptor is closed next. *slot is NULL at first and
     * the loop's own. */
    void (*watch)(void *ctx, int fd, unsigned what, void **slot);
    /* Call fetch_multi_timeout after delay_ms; negative: not at all. Replaces the one before. */
    void (*timer)(void *ctx, int64_t delay_ms);
};

/* Aborts when libcurl cannot start. Hooks are kept. Lives as long as the process. */
struct fetch_multi *fetch_multi_new(const struct fetch_multi_hooks *hooks, void *ctx);
/* What the loop saw: `what` of that descriptor is possible, or the timer ran out. Callbacks of
 * streams run inside. */
void fetch_multi_ready(struct fetch_multi *m, int fd, unsigned what);
void fetch_multi_timeout(struct fetch_multi *m);

enum fetch_flow {
    FETCH_GO,
    FETCH_PAUSE, /* nothing was taken or given; fetch_stream_resume starts again */
    FETCH_ABORT, /* ends with ERR_CANCELLED */
};

/* Callbacks must not start a stream; they may cancel any. */
struct fetch_stream_events {
    /* A field of the final head, in order; before `head`. Borrowed. */
    void (*field)(void *ctx, struct str name, struct str value);
    void (*head)(void *ctx, unsigned status);
    /* Bytes of the body, still encoded as the server sent them. Borrowed. */
    enum fetch_flow (*data)(void *ctx, struct str bytes);
    /* Next bytes of the request's body into room; FETCH_GO with *ret_len 0 is its end. */
    enum fetch_flow (*body)(void *ctx, char *room, size_t size, size_t *ret_len);
    /* A kept connection turned out to be dead: true when `body` starts from the beginning again. */
    bool (*rewind)(void *ctx);
    /* The end: NULL when the answer is whole. The stream is freed after it; outside of any other
     * callback. */
    void (*done)(void *ctx, const struct err *e);
};

struct fetch_stream_request {
    const char *method;
    const char *url;
    /* "Name: value", ended by NULL. Copied; the copies are wiped when the stream ends. */
    const char *const *headers;
    bool has_body;
    int64_t body_bytes; /* -1: unknown, sent in chunks */
    int64_t connect_timeout_ms;
};

/* ERR_INVALID for a URL or header that cannot be sent. events are kept. Never blocks. */
int fetch_stream_start(struct fetch_multi *m, const struct fetch_stream_request *request,
                       const struct fetch_stream_events *events, void *ctx,
                       struct fetch_stream **ret, struct err *e) MUST_CHECK;
/* Goes on in both directions after FETCH_PAUSE. Callbacks may run inside. */
void fetch_stream_resume(struct fetch_stream *s);
/* Ends it now, upstream too; no callback any more. */
void fetch_stream_cancel(struct fetch_stream *s);
