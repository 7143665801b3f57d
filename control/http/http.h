/*
 * HTTP front of the control plane: requests, responses, routes, long answers.
 *
 * The rest of control/ sees only this header; civetweb stays inside this folder. Handlers run on
 * worker threads and block as they like for milliseconds; whatever waits longer becomes a stream on
 * the event thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/arena.h"
#include "lib/buf.h"
#include "lib/err.h"
#include "lib/str.h"

#define HTTP_PARAMS_MAX         4
#define HTTP_BODY_BYTES_DEFAULT (64 * 1024)
#define HTTP_ANSWER_BYTES_MAX   (16 * 1024 * 1024)
#define HTTP_WORKERS            32
#define HTTP_STREAMS_MAX        1024

struct http_connection; /* civetweb's, private */

struct http_request {
    const char *method;
    struct str path;                    /* as sent, without the query */
    struct str query;                   /* as sent, empty when none */
    struct str params[HTTP_PARAMS_MAX]; /* the route's, decoded, in order */
    struct str body;
    struct str host;   /* Host as sent */
    bool from_console; /* came in on the console's port, else on the API's */
    bool body_sent;    /* the request has a body or says it has */
    const char *actor; /* who asks: set by the authorize hook */
    const char *request_id;
    const char *peer;                   /* address of the connection */
    struct arena *arena;                /* lives as long as the request */
    struct http_connection *connection; /* private */
};

struct http_response {
    int status;
    const char *content_type; /* static or in the arena; NULL: none */
    struct buf headers;       /* further "Name: value\r\n" lines */
    struct buf body;
    bool taken; /* the connection went to the event thread: write nothing */
};

/* Value of a header, an empty slice with ptr NULL when absent. Borrowed. */
struct str http_header(const struct http_request *r, const char *name);
/* Decoded query parameter in the request's arena; false when absent. A malformed escape counts as
 * absent. */
bool http_query(const struct http_request *r, const char *name, struct str *ret_value);
/* Iterates the values of all cookies of one name: start with *pos = 0. */
bool http_cookie(const struct http_request *r, size_t *pos, const char *name,
                 struct str *ret_value);

/* Adds one header line. Values come from us only; line breaks are refused by an assertion. */
void http_add_header(struct http_response *p, const char *name, const char *value);
/* The one error shape; status comes from the code's table. retry_after_s 0: no header. */
void http_error(struct http_response *p, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* From a struct err: its tag when it has one, else its code. */
void http_error_from(struct http_response *p, const struct err *e);
void http_retry_after(struct http_response *p, int seconds);
/* Status of an error code of the API, 500 for an unknown one. */
int http_status_of(const char *code);

typedef void (*http_handler)(struct http_request *r, struct http_response *p, void *ctx);

enum http_flags {
    HTTP_PUBLIC = 1,       /* no credential wanted */
    HTTP_API_ONLY = 2,     /* does not exist on the console's port */
    HTTP_CONSOLE_ONLY = 4, /* does not exist on the API's port */
    HTTP_FALLBACK = 8,     /* any GET path that no route has */
};

struct http_route {
    const char *method;
    const char *pattern; /* "/v1/apps/:id/sandbox" */
    http_handler handler;
    unsigned flags;
    size_t body_max; /* 0: HTTP_BODY_BYTES_DEFAULT */
};

/* False: the response is filled and the handler is not called. Runs before the body is read. */
typedef bool (*http_authorize)(struct http_request *r, struct http_response *p,
                               const struct http_route *route, void *ctx);

struct http_options {
    uint16_t api_port;
    uint16_t console_port;
    const struct http_route *routes;
    size_t route_count;
    http_authorize authorize;
    void *ctx;
};

struct http_server;

/* Listens on 127.0.0.1; tests its two interposed symbols with a request to itself. ERR_UNAVAILABLE
 * names a taken port. */
int http_server_start(const struct http_options *options, struct http_server **ret, struct err *e)
    MUST_CHECK;
/* Refuses new requests, waits up to 10 s for running ones, ends streams, stops. */
void http_server_stop(struct http_server *take_server);

/* Requests answered and seconds spent, for /metrics. */
void http_server_count(uint64_t *ret_requests, uint64_t *ret_errors);

/* ---- long answers: SSE, waiting calls ---- */

enum http_pump {
    HTTP_PUMP_WAIT, /* nothing to say now; called again after a kick or the deadline */
    HTTP_PUMP_MORE, /* call again when this is sent */
    HTTP_PUMP_END,  /* send what is there and close */
};

struct http_stream_options {
    const char *key; /* http_kick(key) wakes it; at most 63 characters, copied */
    /* Appends bytes (head included, the first time) to out. Runs on the event thread: short, no
     * waiting. expired: the deadline has passed. */
    enum http_pump (*pump)(void *ctx, struct buf *out, bool expired);
    /* Frees ctx; called once, on the event thread, when the connection is over for whatever reason.
     */
    void (*closed)(void *ctx);
    void *take_ctx;
    int64_t deadline_ms; /* monotonic, 0: none */
    bool heartbeat;      /* an SSE comment every 15 s */
};

/* Takes the connection from its worker. When 1,024 are open: fills 429 and calls closed at once. */
void http_stream_start(struct http_request *r, struct http_response *p,
                       const struct http_stream_options *options);
/* Any thread: pumps every stream of that key soon. */
void http_kick(const char *key);
/* A whole response as bytes, for a stream that answers once. */
void http_render(const struct http_response *p, const char *request_id, struct buf *out);
/* Head of a text/event-stream answer. */
void http_render_sse_head(const char *request_id, struct buf *out);

void http_response_init(struct http_response *p);
void http_response_done(struct http_response *p);
