/*
 * Address lists: what SANDBOXD_EGRESS_ALLOW lets through the walls. Pure functions, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/buf.h"
#include "lib/err.h"
#include "lib/str.h"

#define ALLOW_ENTRIES_MAX 64
#define ALLOW_TEXT_BYTES  64 /* address, slash, length, NUL */

struct allow_prefix {
    bool is_v6;
    uint8_t bits;
    uint8_t bytes[16]; /* the first 4 for IPv4 */
};

struct allow_entry {
    struct allow_prefix prefix;
    uint16_t port; /* 0: every port and protocol */
};

struct allow_list {
    struct allow_entry entries[ALLOW_ENTRIES_MAX];
    size_t count;
};

/* "address[/len][:port],…"; IPv6 with a port stands in brackets: [2001:db8::1]/64:443. Empty is an
 * empty list. ERR_INVALID names the entry and what is accepted. */
int allow_parse(struct str text, struct allow_list *ret, struct err *e) MUST_CHECK;

/* address[/len]. False for anything else. */
bool allow_parse_prefix(struct str text, struct allow_prefix *ret);
/* No bits set behind the prefix length. */
bool allow_prefix_is_base(const struct allow_prefix *p);
/* A whole address: /32 or /128. */
bool allow_prefix_is_address(const struct allow_prefix *p);
/* 127/8 or ::1. */
bool allow_prefix_is_loopback(const struct allow_prefix *p);
/* Canonical text with /len unless it is a whole address; returns text. Bits behind the length are
 * cleared. */
char *allow_prefix_text(const struct allow_prefix *p, char text[ALLOW_TEXT_BYTES]);
/* True when the two have an address in common. */
bool allow_prefix_overlaps(const struct allow_prefix *a, const struct allow_prefix *b);
