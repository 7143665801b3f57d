/*
 * Errors: a struct on the caller's stack, set where it fails, wrapped on the way up.
 *
 * Codes are for decisions, messages for people: lower case, no trailing dot, object and operation,
 * never a secret.
 */
#pragma once

#include <stdarg.h>

enum err_code {
    ERR_NONE,
    ERR_INVALID,      /* the caller's input is wrong */
    ERR_UNAUTHORIZED, /* no or wrong credential */
    ERR_FORBIDDEN,
    ERR_NOT_FOUND,
    ERR_CONFLICT, /* the object's state forbids it */
    ERR_LIMIT,    /* a named bound was reached */
    ERR_BUSY,     /* try again soon */
    ERR_TIMEOUT,
    ERR_CANCELLED,
    ERR_UNAVAILABLE, /* something we depend on is down */
    ERR_PROTOCOL,    /* a peer broke its protocol */
    ERR_IO,
    ERR_INTERNAL,
};

struct err {
    enum err_code code;
    int cause;    /* errno, 0 when there is none */
    char tag[32]; /* optional machine word, e.g. "image_building"; "" when none */
    char msg[512];
};

/* Fills e (NULL is fine) and returns -1. errno_value 0: none; else its text is appended. */
int err_set(struct err *e, enum err_code code, int errno_value, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Puts "context: " before the message; returns -1. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Sets the machine word; returns -1. */
int err_tag(struct err *e, const char *tag);
/* "invalid", "not_found", … as in docs/protocols.md section 3. */
const char *err_code_name(enum err_code code);
/* Back from a name; ERR_INTERNAL for an unknown one. */
enum err_code err_code_from_name(const char *name);

#define MUST_CHECK __attribute__((warn_unused_result))
