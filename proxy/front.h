/*
 * The serving side of an HTTP/1.1 connection, for both roles: reads requests one after the other,
 * hands each to the role, writes its answer, keeps the connection.
 *
 * Body bytes are read only when the role asks for them. No call of this file runs a callback of the
 * role inside it, but for front_answer_* which end the exchange: nothing of it may be touched
 * afterwards. Main thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/ulid.h"
#include "proxy/http_head.h"
#include "proxy/http_parse.h"
#include "proxy/wire.h"

struct front;
struct exchange;

struct front_role {
    /* A request's head is whole; x->body may have bytes and x->request_whole may be true already.
     */
    void (*begin)(struct exchange *x);
    /* More in x->body, or the request is whole now. Only after front_want_body. */
    void (*body)(struct exchange *x);
    /* Everything written has left; only after front_flush returned false. */
    void (*drained)(struct exchange *x);
    /* The client left or its request broke off. The exchange ends by itself after this. */
    void (*gone)(struct exchange *x);
    /* Raw bytes after front_switch. */
    void (*raw)(struct exchange *x, struct str bytes);
    /* The client closed its sending side after front_switch. */
    void (*raw_ended)(struct exchange *x);
    /* The connection is over, with whatever it carried. May be NULL. */
    void (*closed)(const struct ulid *sandbox);
};

struct exchange {
    struct front *front;
    void *role_data;     /* the role's own; it frees it before the exchange ends */
    struct ulid sandbox; /* through whose door it came; empty at the edge */
    struct head request;
    struct buf body; /* decoded, received and not yet taken: the role empties it with buf_reset */
    enum http_framing framing;
    uint64_t length;
    int64_t began_ms;
    struct buf out; /* of the answer, not yet flushed */
    bool is_upgrade;
    bool request_whole;
    bool is_head;              /* HEAD: the answer carries no body */
    bool head_written;         /* of the final answer */
    bool is_chunked, has_body; /* of the answer */
    bool switched;
    bool must_close;
    bool over;
    struct loop_later later;
};

/* Serves the connection; takes it. sandbox is NULL at the edge; `early` are bytes that were read
 * already. */
void front_open(struct wire *take_wire, const struct front_role *role, const struct ulid *sandbox,
                struct str early);
/* Connections open now. */
unsigned front_count(void);
/* From now on every answer says Connection: close. */
void front_drain_all(void);

/* Reads more of the body (or, without one left, watches for the client's leaving, which happens
 * anyway). */
void front_want_body(struct exchange *x, bool wanted);
/* Whether the client left, though nothing was read. One system call. */
bool front_client_gone(const struct exchange *x);

/* Interim answer, 1xx without 101. `fields` are whole lines. */
void front_interim(struct exchange *x, unsigned status, struct str reason, struct str fields);
/* Head of the final answer. `fields` are whole lines without framing and connection fields. With
 * HTTP_UNTIL_CLOSE the length is unknown: chunked, or to an HTTP/1.0 client until close. */
void front_head(struct exchange *x, unsigned status, struct str reason, struct str fields,
                enum http_framing framing, uint64_t length);
/* Part of the answer's body. Copied. */
void front_body(struct exchange *x, struct str bytes);
/* Sends what was added. False when the client takes no more for now: stop the source until
 * `drained`. */
bool front_flush(struct exchange *x);
/* The answer is complete; `trailers` are whole lines. Ends the exchange. */
void front_end(struct exchange *x, struct str trailers);
/* The answer broke off: the connection is destroyed, so that nobody takes it for an end in order.
 * Ends the exchange. */
void front_break(struct exchange *x);
/* A whole small answer of our own. Ends the exchange. fields may be empty. */
void front_answer(struct exchange *x, unsigned status, struct str fields, struct str body);

/* Answers 101; from then on bytes pass as they are. */
void front_switch(struct exchange *x, struct str reason, struct str fields);
/* What the client sent ahead of the switch; pass it on after front_switch. Borrowed. */
struct str front_raw_early(const struct exchange *x);
/* False when the client takes no more for now. */
bool front_raw(struct exchange *x, struct str bytes);
void front_raw_read(struct exchange *x, bool on);
/* No more bytes to the client; the exchange ends when the client closes too, or by front_raw_end.
 */
void front_raw_shutdown(struct exchange *x);
/* Ends the exchange and its connection after what was written has left. */
void front_raw_end(struct exchange *x);

/* "OK", "Not Found", …; "" for an unknown one. */
struct str front_reason(unsigned status);
