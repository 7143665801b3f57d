/*
 * Port watch: which ports listen, polled quickly while something starts, and what of it the control
 * plane must hear. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/buf.h"
#include "supervisor/sockets.h"

#define PORTWATCH_DECLARED_MAX 64
#define PORTWATCH_OTHERS_MAX   32
#define PORTWATCH_RELAY_PORT   9100 /* ours */

struct portwatch_port {
    uint16_t port;
    bool open;
    bool dirty;
};

struct portwatch {
    struct sockets sockets;
    struct portwatch_port declared[PORTWATCH_DECLARED_MAX];
    size_t declared_count;
    struct portwatch_port others[PORTWATCH_OTHERS_MAX]; /* listen, but nobody declared them */
    size_t other_count;
    bool hurry;           /* something starts */
    int64_t hurry_end_ms; /* then less of it */
    int64_t next_ms;
    void (*changed)(void *ctx);
    void *ctx;
};

void portwatch_init(struct portwatch *pw, void (*changed)(void *ctx), void *ctx);
void portwatch_done(struct portwatch *pw);
/* The ports that are reported; web_port 0: none. Those that stay keep what is known of them. */
void portwatch_declare(struct portwatch *pw, const uint16_t *ports, size_t count,
                       uint16_t web_port);
bool portwatch_is_open(const struct portwatch *pw, uint16_t port);
/* A port that listens though nobody declared it, the last one seen; 0: none. */
uint16_t portwatch_other(const struct portwatch *pw);
/* Something starts: look often. Or not any more. */
void portwatch_hurry(struct portwatch *pw, bool hurry, int64_t now_ms);
/* The next tick looks, whatever the time is: what is known may be of a process that is gone. */
void portwatch_expire(struct portwatch *pw);
/* Looks when it is due; returns the monotonic time of the next look. */
int64_t portwatch_tick(struct portwatch *pw, int64_t now_ms);
/* A new connection: everything is to be told again. */
void portwatch_tell_all(struct portwatch *pw);
/* Appends `port` and `other_port` records until out holds `until` bytes. */
void portwatch_emit(struct portwatch *pw, struct buf *out, size_t until);
/* Takes a table over; for portwatch_tick and its test. */
void portwatch_apply(struct portwatch *pw, const struct sockets_list *list);
