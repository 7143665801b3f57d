/*
 * One direction of an HTTP/1.1 connection, parsed: the only place that knows llhttp, strict.
 *
 * What llhttp lets through and a relay must not is refused here too: see http_parse.c. Main thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <llhttp.h>

#include "lib/str.h"
#include "proxy/http_head.h"

enum http_problem {
    HTTP_FINE,
    HTTP_BAD,         /* 400 */
    HTTP_TOO_LARGE,   /* 431 */
    HTTP_BAD_VERSION, /* 505 */
    HTTP_BAD_CODING,  /* 501 */
};

/* How a body is framed. */
enum http_framing {
    HTTP_NO_BODY,
    HTTP_LENGTH,
    HTTP_CHUNKED,
    HTTP_UNTIL_CLOSE
};

struct http_events {
    /* The head is whole. True: the message has no body whatever it says (the answer to HEAD). */
    bool (*head)(void *ctx);
    /* Decoded bytes of the body, borrowed. */
    void (*body)(void *ctx, struct str bytes);
    /* The message is whole; parsing stops until http_parser_next. */
    void (*end)(void *ctx);
};

struct http_parser {
    llhttp_t ll;
    struct head *head; /* borrowed; filled */
    const struct http_events *events;
    void *ctx;
    size_t head_bytes;
    enum http_problem problem;
    enum http_framing framing; /* known once the head is whole */
    uint64_t length;
    bool in_head, head_whole, message_whole, stopped, is_upgrade;
    bool has_no_body; /* an answer without one whatever its fields say: HEAD, 1xx, 204, 304 */
};

void http_parser_init(struct http_parser *p, bool is_request, const struct http_events *events,
                      void *ctx);
/* Ready for a message whose head goes to `head`; also after one that is whole. */
void http_parser_next(struct http_parser *p, struct head *head);
/* Consumes bytes up to the end of the message at most; returns how many. Look at problem and
 * message_whole after it. */
size_t http_parser_feed(struct http_parser *p, struct str bytes);
/* The connection was closed in order: true when that completes the message (framed until close). */
bool http_parser_finish(struct http_parser *p);
/* From inside a callback: parse nothing more. */
void http_parser_stop(struct http_parser *p);
/* Whether the connection may carry another message after this one. */
bool http_parser_keeps_alive(const struct http_parser *p);
/* One sentence for a log or an answer. */
const char *http_problem_text(const struct http_parser *p);
