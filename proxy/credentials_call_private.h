/*
 * Inside of a request on its way to a provider; private to credentials_{call,body,send,answer}.c.
 * Main thread.
 */
#pragma once

#include "lib/fetch_multi.h"
#include "proxy/credentials_admit.h"
#include "proxy/credentials_error.h"
#include "proxy/credentials_grant.h"
#include "proxy/credentials_path.h"
#include "proxy/credentials_refuse.h"
#include "proxy/front.h"
#include "proxy/limits.h"
#include "proxy/model_answer.h"
#include "proxy/model_request.h"

/* The request's body on its way. */
struct call_body {
    struct model_request request; /* what it asks for, as far as it was read */
    struct buf held;              /* its beginning: read ahead, and for a second try */
    size_t held_at;               /* how much of it was sent */
    size_t scanned;               /* at the front of what the front holds for us */
    int64_t bytes;                /* read of it so far */
    bool can_hold;                /* held is all of it so far */
    bool is_paused, is_too_large;
};

/* The answer on its way back. */
struct call_answer {
    struct buf fields;
    struct mask_stream cover; /* takes the key out of the body */
    struct buf error;         /* beginning of an error's body, read before it is passed on */
    struct model_answer model;
    struct provider_error verdict;
    uint64_t length;
    unsigned status;
    char should_retry[8]; /* the provider's own word */
    bool has_length, is_sse, is_paused, is_error_held;
};

struct call {
    struct exchange *x;
    struct call *next, *prev;
    struct grant_user user;
    struct admission admission;
    struct grant_keys *keys;               /* kept while the request runs */
    const struct grant_provider *provider; /* in keys */
    const struct grant_path *path;         /* in keys */
    struct credentials_target target;      /* slices of the request */
    enum model_format format;
    struct fetch_stream *stream;
    struct call_body body;
    struct call_answer answer;
    struct loop_deadline idle;
    struct loop_later later;
    bool is_reading; /* the beginning of the body, to learn what it asks for */
    bool over;
};

/* ---- credentials_call.c ---- */

/* Ends it: upstream is cancelled, usage told. The exchange stays. */
void call_over(struct call *c);
/* Ends it with an answer of ours, or by breaking the connection when an answer has begun. */
void call_fail(struct call *c, unsigned status, const char *type, const char *message);
void call_refuse(struct call *c, const struct refusal *r);
/* Nothing moved for so long: 504. */
void call_idle_set(struct call *c, int64_t delay_ms);
/* The same for the wait for an answer's head. */
void call_idle_wait(struct call *c);
/* Asks sandboxd for what the body asks for by now. True: given at once. */
bool call_admit(struct call *c);

/* ---- credentials_body.c ---- */

void body_init(struct call *c);
void body_done(struct call *c);
/* Reads on until it is known what the request asks for. True: known, or as much as can be. */
bool body_read_ahead(struct call *c);
/* What it asks for, as far as is known. Borrowed texts. */
struct spend_request body_request(const struct call *c);
/* For the fetch: next bytes, and from the beginning again. */
enum fetch_flow body_next(void *ctx, char *room, size_t size, size_t *ret_len);
bool body_rewind(void *ctx);
/* After the answer has begun nothing is sent twice. */
void body_forget(struct call *c);

/* ---- credentials_send.c ---- */

/* Sends it upstream; on failure the call has ended. */
void call_send(struct call *c);

/* ---- credentials_answer.c ---- */

void answer_init(struct call *c);
void answer_done(struct call *c);
extern const struct fetch_stream_events call_stream_events;
/* What is to be told of its spend. */
void answer_usage(const struct call *c, struct usage *ret);
