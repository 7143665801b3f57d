/*
 * Records: length-prefixed frames of key and value (docs/protocols.md, section 3), and blocking
 * exchange of them.
 *
 * The parser is strict and bounded: it never allocates more than the frame. No thread of its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/buf.h"
#include "lib/err.h"
#include "lib/str.h"

#define RECORD_FRAME_MAX 65536 /* bytes after the length prefix */
#define RECORD_KEY_MAX   64
#define RECORD_PROTOCOL  1

/* Builder. The frame's length prefix is patched by record_end. Several records may stand in one
 * buffer. */
struct record_writer {
    struct buf *out; /* borrowed */
    size_t start;
    bool failed_before; /* out had failed already */
};
struct record_writer record_begin(struct buf *out, const char *kind);
void record_add(struct record_writer *w, const char *key, struct str value);
void record_adds(struct record_writer *w, const char *key, const char *value); /* NULL: left out */
void record_addn(struct record_writer *w, const char *key, int64_t value);
void record_addb(struct record_writer *w, const char *key, bool value);
/* False when the frame is too long or the buffer is full; the buffer is then as before
 * record_begin. */
bool record_end(struct record_writer *w);

/* Parsed view: borrows the frame's bytes. */
struct record {
    struct str kind;
    struct str fields; /* everything after kind, still encoded, validated */
};

/* A frame without its prefix. ERR_PROTOCOL. */
int record_parse(struct str frame, struct record *ret, struct err *e) MUST_CHECK;
/* Takes the next whole frame off the front of in: 1 and *ret_frame (borrowed from in until
 * record_skip), 0 not yet whole, -1 ERR_PROTOCOL for a bad length. */
int record_next(const struct buf *in, struct str *ret_frame, struct err *e);
/* Drops that frame from in. */
void record_skip(struct buf *in, struct str frame);

bool record_is(const struct record *r, const char *kind);
/* First value of a key; an empty slice with ptr NULL when absent. Borrowed. */
struct str record_get(const struct record *r, const char *key);
/* Numbers and booleans: false when absent or malformed. */
bool record_get_u64(const struct record *r, const char *key, uint64_t max, uint64_t *ret_value);
bool record_get_i64(const struct record *r, const char *key, int64_t *ret_value);
bool record_get_bool(const struct record *r, const char *key, bool fallback);
/* Iterates all fields in order: start with *pos = 0; false at the end. */
bool record_each(const struct record *r, size_t *pos, struct str *ret_key, struct str *ret_value);
/* Iterates the values of one key. */
bool record_each_of(const struct record *r, size_t *pos, const char *key, struct str *ret_value);

/* Blocking exchange over a connected socket, with a deadline. */
int record_send(int fd, const struct buf *frames, int64_t deadline_ms, struct err *e) MUST_CHECK;
/* Sends frames with one descriptor attached to the first byte. */
int record_send_fd(int fd, const struct buf *frames, int pass_fd, int64_t deadline_ms,
                   struct err *e) MUST_CHECK;
/* Reads one whole frame into in (reset first) and parses it. ERR_IO with cause EPIPE when the peer
 * closed. */
int record_recv(int fd, struct buf *in, struct record *ret, int64_t deadline_ms, struct err *e)
    MUST_CHECK;
/* The same; *ret_pass_fd is a descriptor that came along, or -1. Caller owns it. More than one is
 * refused. */
int record_recv_fd(int fd, struct buf *in, struct record *ret, int *ret_pass_fd,
                   int64_t deadline_ms, struct err *e) MUST_CHECK;
/* An "error" record into a struct err: code and message. Returns -1. */
int record_to_err(const struct record *r, struct err *e);
/* Appends error{code, message}. */
void record_add_error(struct buf *out, const struct err *e);
