/*
 * The head of one message: first line and fields, as sent, inside one bounded block; and what a
 * relay asks about it.
 *
 * Main thread. Slices that it gives are borrowed until the head changes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/buf.h"
#include "lib/str.h"
#include "proxy/limits.h"

struct head_field {
    uint32_t name_at, name_len, value_at, value_len;
};

struct head {
    struct buf text;
    struct head_field fields[LIMIT_HEAD_FIELDS];
    unsigned count;
    unsigned trailers_from; /* fields from here on came after the body */
    uint32_t method_at, method_len;
    uint32_t target_at, target_len; /* for an answer: the reason */
    unsigned status;
    unsigned major, minor;
};

void head_init(struct head *h);
void head_done(struct head *h);

struct str head_method(const struct head *h);
struct str head_target(const struct head *h);
struct str head_name(const struct head *h, unsigned i);
struct str head_value(const struct head *h, unsigned i);
/* First value of a field that came before the body; ptr NULL when absent. name is compared without
 * case. */
struct str head_get(const struct head *h, const char *name);
unsigned head_count(const struct head *h, const char *name);
/* Whether a list field (all of that name) has a token, without case. */
bool head_has_token(const struct head *h, const char *name, const char *token);
/* How many tokens of that name equal it. */
unsigned head_count_token(const struct head *h, const char *name, const char *token);

/* Fields that belong to one connection: RFC 9110 section 7.6.1, and whatever `Connection` names. */
bool head_is_hop(const struct head *h, struct str name);
/* Appends "Name: value\r\n" for every field that may travel on and that `drop` (NULL: none) does
 * not name. */
typedef bool (*head_drop_fn)(struct str name, struct str value, const void *ctx);
void head_copy(const struct head *h, struct buf *out, head_drop_fn drop, const void *ctx);
/* The same for trailers; framing and routing fields never pass there. */
void head_copy_trailers(const struct head *h, struct buf *out);
