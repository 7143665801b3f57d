/*
 * Listening TCP sockets of this network namespace: from the kernel's socket diagnosis where it has
 * one, else from /proc/net/tcp and tcp6. Reading those walks the machine's whole connection table
 * (2 ms on a small machine), the diagnosis only the listeners (0.03 ms). One thread.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/str.h"

#define SOCKETS_MAX \
    256 /* listeners that are looked at; an app with more is shown as it is up to here */

struct sockets_listener {
    uint16_t port;
    bool is_v6;

    union {
        struct in_addr v4;
        struct in6_addr v6;
    } address;
};

struct sockets_list {
    size_t count;
    struct sockets_listener items[SOCKETS_MAX];
};

struct sockets {
    int netlink_fd; /* -1: none yet, or none to be had */
    bool proc_only; /* the diagnosis is not available here */
};

void sockets_init(struct sockets *s);
void sockets_done(struct sockets *s);
/* Fills list. False when the table could not be read; list is then empty. Blocks no longer than the
 * kernel's answer. */
bool sockets_read(struct sockets *s, struct sockets_list *list);

/* True when a look at the table costs next to nothing. */
static inline bool sockets_is_cheap(const struct sockets *s)
{
    return !s->proc_only;
}

/* Appends the listeners of a /proc/net/tcp or tcp6 text. */
void sockets_parse_proc(struct str text, bool is_v6, struct sockets_list *list);
/* Whether somebody who asks for that port from inside could reach this listener (the engine's
 * resolver is nobody's app). */
bool sockets_is_app(const struct sockets_listener *listener);
/* The address to connect to for this listener: loopback for a wildcard. Returns its length. */
socklen_t sockets_address(const struct sockets_listener *listener, struct sockaddr_storage *ret);
