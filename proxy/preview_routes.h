/*
 * The route table: one row per sandbox as sandboxd told it, kept in a file for the time when
 * sandboxd is away.
 *
 * Main thread. Rows are borrowed until the `gone` event.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/crypto.h"
#include "lib/record.h"
#include "lib/ulid.h"
#include "proxy/ids.h"
#include "proxy/limits.h"
#include "proxy/loop.h"

struct visit;

enum route_state {
    ROUTE_ASLEEP,
    ROUTE_STARTING,
    ROUTE_RUNNING,
    ROUTE_STOPPING,
    ROUTE_FAILED
};

struct route_ports {
    uint16_t list[LIMIT_ROUTE_PORTS];
    unsigned count;
};

/* What everybody who waits for this sandbox shares (preview_wake.c). */
struct route_wake {
    struct visit *visits; /* of this sandbox, waiting or not; linked in the visits */
    unsigned waiting;
    bool sent; /* a wake was sent and its outcome is still to come */
    int64_t began_ms;
    int64_t failed_until_ms, failed_page_until_ms; /* the failure below is the answer until then */
    char *message, *lines;                         /* owned; NULL: none */
    int64_t retry_after_s;
    char *status_message, *status_lines; /* owned; why a running sandbox does not answer */
    bool status_failed;                  /* it will not, as far as anybody knows */
    int64_t status_asked_ms;
    uint64_t status_n; /* of the question that is out; 0: none */
    struct loop_deadline retry;
    struct loop_later check_later;
    bool check_queued;
};

/* What activity.c counts. */
struct route_activity {
    struct ids_entry *prev, *next; /* ring of rows with something to tell */
    unsigned open;
    int64_t last_byte_ms;
    bool is_listed;
};

struct route {
    struct ids_entry entry; /* first */
    uint64_t generation;
    enum route_state state;
    struct route_ports ports, open;
    bool is_private;
    uint64_t access_epoch; /* what a pass must name */
    bool is_fresh;         /* sent since the last hello */
    uint64_t ask;          /* sandboxd wants to stop it and asks; 0: it does not */
    uint64_t answered;     /* the last question that was */
    bool is_busy_told;     /* that something was at work: its end is told too */
    int64_t usual_ms;
    char phase[24];
    char *detail; /* owned; NULL: none */
    struct route_wake wake;
    struct route_activity activity;
    struct loop_later later;
};

struct routes_settings {
    char domain[256];                   /* lower case */
    char console_host[256];             /* lower case */
    bool is_tls;                        /* previews of that domain are reached by https */
    uint8_t pass_key[CRYPTO_KEY_BYTES]; /* verifies passes */
    bool has_pass_key;
    uint64_t wakes_per_client, wakes_per_minute;
    bool is_known;
};

struct routes_events {
    /* A row is new or changed. */
    void (*changed)(struct route *r);
    /* Freed after this. */
    void (*gone)(struct route *r);
};

/* Loads the file when there is one. events are kept. */
void routes_init(const char *data_dir, const struct routes_events *events);
const struct routes_settings *routes_settings_get(void);
/* Whether the table was complete once: told by sandboxd or read from the file. */
bool routes_are_known(void);
struct route *routes_find(const struct ulid *id);
bool route_has_port(const struct route_ports *ports, uint16_t port);
const char *route_state_name(enum route_state state);

/* A new connection to sandboxd: the table will come again. */
void routes_begin(void);
/* sandboxd is away: what it asked about runs on. `changed` is told of each. */
void routes_forget_asks(void);
/* settings, route, gone, synced; false for a record of another kind. */
bool routes_take(const struct record *r);
