/*
 * Who may sleep and when: an app's policy, what keeps a sandbox awake, and the question that every
 * preview proxy answers before a container gets its TERM. Private to control/sandbox/.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/ulid.h"

struct sandbox;
struct sandbox_service;

/* Preview proxies at once: the one that serves, the one before it that finishes, and room. */
#define IDLE_PROXIES_MAX 4

/* Of one sandbox; guarded by the service's lock like all of it. Times are monotonic. */
struct idle {
    bool always_on;
    bool stays_stopped;       /* a person stopped it: always_on leaves it alone */
    int64_t threshold_s;      /* the app's own; 0: the installation's */
    int64_t keep_alive_ms;    /* not put to sleep before; 0: nobody asked */
    int64_t keep_alive_until; /* the same, as it was promised: milliseconds since the epoch */
    int64_t not_before_ms;    /* an idle stop that came to nothing is not tried before */
    int64_t open_of[IDLE_PROXIES_MAX]; /* open connections by proxy; open_connections is the sum */
};

/* How an always_on sandbox is kept up (always_on.c); guarded likewise, monotonic. */
struct keeper {
    int tries;           /* ends in a row, each soon after its start */
    int64_t next_ms;     /* not started before */
    int64_t up_since_ms; /* 0: it does not run */
    bool asked;          /* its last start was ours */
    bool gave_up;
};

enum keeper_step {
    KEEPER_WAIT,
    KEEPER_START,
    KEEPER_GIVE_UP
};

/* What the proxies are asked before a stop; guarded likewise. */
struct ask {
    int64_t n;       /* 0: nobody is asked */
    unsigned silent; /* proxies that have not answered, a bit each */
    unsigned busy;   /* proxies with a request at work in the app, a bit each */
};

struct ask_answer {
    int64_t n;
    int64_t open;   /* connections that count as use */
    int64_t busy;   /* requests that may have reached the app and are not answered */
    int64_t age_ms; /* of the last byte; -1: there was none */
};

/* How long it may be unused before it sleeps; 0: for ever. */
int64_t idle_threshold_ms(const struct idle *idle, int64_t installation_s);
/* Something works in it, or somebody is connected to it. Under the lock. */
bool idle_is_used(const struct sandbox *b);
/* When it sleeps unless somebody uses it, monotonic; 0: not, as things are. Under the lock. */
int64_t idle_sleeps_at_ms(const struct sandbox *b, int64_t installation_s);
/* Whether it goes to sleep now. Under the lock. */
bool idle_is_due(const struct sandbox_service *s, const struct sandbox *b, int64_t now_ms);

/* ---- the question before a stop (ask.c) ---- */

/* Under the lock. */
void ask_begin(struct sandbox_service *s, struct sandbox *b);
void ask_end(struct sandbox_service *s, struct sandbox *b);
/* Its container is gone, and every connection with it. */
void ask_forget_open(struct sandbox *b);
/* Whether the word of the proxies is complete: none of them is about to come back. */
bool ask_is_known(const struct sandbox_service *s, int64_t now_ms);

/* For the broker; they take the lock. A proxy is the place of its connection. */
void ask_proxy_came(struct sandbox_service *s, size_t proxy);
void ask_proxy_left(struct sandbox_service *s, size_t proxy);
void ask_take_activity(struct sandbox_service *s, size_t proxy, const struct ulid *id, int64_t open,
                       int64_t age_ms);
void ask_take_answer(struct sandbox_service *s, size_t proxy, const struct ulid *id,
                     const struct ask_answer *answer);

/* ---- always_on (always_on.c) ---- */

/* always_on, and neither up nor on its way. Under the lock. */
bool keeper_is_down(const struct sandbox *b);
/* What is to be done about it now; keeps the count of its ends. Under the lock. */
enum keeper_step keeper_look(struct sandbox *b, int64_t now_ms);
/* A turn: starts and gives up. The reaper's thread; blocks on the database. */
void always_on_tick(struct sandbox_service *s);
/* The engine is back: no pause is waited for. Takes the lock. */
void always_on_hurry(struct sandbox_service *s);
