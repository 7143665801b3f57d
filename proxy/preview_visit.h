/*
 * One request on its way to an app: routing, holding, relaying. The three files preview_visit.c
 * (which app, may it), preview_wake.c (wait) and preview_relay.c (pass on) share it. Main thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proxy/broker.h"
#include "proxy/front.h"
#include "proxy/preview_access.h"
#include "proxy/preview_gate.h"
#include "proxy/preview_host.h"
#include "proxy/preview_passive.h"
#include "proxy/preview_routes.h"
#include "proxy/ws_frames.h"

enum visit_state {
    VISIT_NEW,
    VISIT_ENTERING, /* its ticket is at sandboxd; in preview_enter.c */
    VISIT_WAITING,  /* for the sandbox; in preview_wake.c */
    VISIT_OPENING,  /* a stream was asked for; nothing reached the app */
    VISIT_RELAYING, /* bytes may have reached the app: no second try */
    VISIT_SWITCHED, /* both sides speak another protocol */
    VISIT_OVER,
};

struct visit {
    struct exchange *x; /* owned by the front; valid until VISIT_OVER */
    struct preview_host host;
    struct route *route;       /* NULL once sandboxd forgot it, and while entering */
    struct access access;      /* what it brought along */
    struct visit *next, *prev; /* of the same route */
    struct visit *all_next, *all_prev;
    enum visit_state state;
    enum passive_kind passive;
    struct stream *stream; /* owned */
    struct http_parser parser;
    struct head answer;
    struct ws_frames frames; /* of the app's side after a switch */
    struct loop_deadline deadline;
    struct loop_later later;
    bool is_navigation; /* a person's page load: a page of ours may take its place */
    bool wants_page;    /* a person looks at the answer, whatever the method */
    bool is_counted;    /* as activity */
    bool was_held, was_refused;
    bool request_sent, answer_whole, stream_over;
};

/* ---- preview_visit.c ---- */

extern const struct front_role preview_role;

void visits_init(struct broker *broker);
unsigned visits_count(void);
/* r may be NULL. The visit is its exchange's role data from now on. */
struct visit *visit_new(struct exchange *x, const struct preview_host *host, struct route *r);
/* Sec-Fetch says it; who does not send that asks for a page by taking HTML. A page load that goes
 * through a service worker keeps its mode and has no destination any more. */
bool visit_wants_page(const struct head *h);
/* The exchange was answered or is gone: frees everything else of the visit. */
void visit_over(struct visit *v);
/* Detaches it from a route that goes away. */
void visit_unroute(struct visit *v);
/* SIGTERM: held requests are answered, sockets closed with 1012. */
void visits_drain(void);
/* What is still there is cut; returns how many that were. */
unsigned visits_cut(void);
bool visits_are_draining(void);
/* fn must not end the visit. */
void visits_each_waiting(void (*fn)(struct visit *v));

/* ---- preview_wake.c ---- */

void wake_init(struct broker *broker);
/* Sends it on if the app is there, else holds it. */
void wake_try(struct visit *v);
/* Nothing of it reached the app. `refused`: nothing listens on its port. */
void wake_hold(struct visit *v, bool refused);
/* The app took a connection on that port: everybody who waits for it may go. */
void wake_port_answers(struct route *r, uint16_t port);
void wake_route_changed(struct route *r);
void wake_route_gone(struct route *r);
void wake_standing(const struct ulid *id);
void wake_broker_up(void);
/* wake_failed and status; false for another kind. */
bool wake_take(const struct record *r);
/* Leaves the waiting; for visit_over. */
void wake_left(struct visit *v);
/* Forgets a failure that somebody asks to try again. */
void wake_forget_failure(struct route *r);
/* Answers /.sandboxd/wake. */
void wake_answer_poll(struct exchange *x, struct route *r, const struct preview_host *host);

/* ---- preview_relay.c ---- */

/* Takes an idle stream or opens one. */
void relay_open(struct visit *v);
/* The client sent more of its body, or the last of it. */
void relay_body(struct visit *v);
void relay_client_drained(struct visit *v);
void relay_raw(struct visit *v, struct str bytes);
void relay_raw_ended(struct visit *v);
/* A WebSocket is told that the service restarts (1012), anything else that was switched is closed.
 */
void relay_restart(struct visit *v);
/* Its access has ended: a WebSocket is told so (1008), anything else that was switched is cut. */
void relay_revoke(struct visit *v);
