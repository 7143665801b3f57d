/*
 * One connection, TCP or Unix: reading into a shared buffer, writing at once where the kernel takes
 * it, closing.
 *
 * No callback ever runs inside a call of this file, so that an owner may close a wire from
 * anywhere, its own callbacks included; after wire_close nothing is called any more. Main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <uv.h>

#include "lib/str.h"
#include "proxy/loop.h"

struct wire_events {
    /* Borrowed until it returns. */
    void (*data)(void *ctx, struct str bytes);
    /* The peer closed its side (0) or the connection broke (a negative uv code). Once. */
    void (*ended)(void *ctx, int status);
    /* All that was written has left; only after a time when it had not. May be NULL. */
    void (*drained)(void *ctx);
};

struct wire;

/* Takes the next connection of a listener. NULL when there is none or it is gone. Caller owns;
 * wire_close it. */
struct wire *wire_accept(uv_stream_t *listener);
/* A Unix connection to path; connected or NULL. Never blocks. */
struct wire *wire_connect_unix(const char *path);

/* Who hears of it; events are kept, not copied. Reading stays as it was. */
void wire_attach(struct wire *w, const struct wire_events *events, void *ctx);
/* Starts and stops reading. The end is noticed only while reading. */
void wire_read(struct wire *w, bool on);
/* Up to WIRE_PARTS slices in order; what the kernel does not take is copied. Keep wire_queued
 * small. */
#define WIRE_PARTS 8
void wire_write(struct wire *w, const struct str *parts, unsigned count);
/* Bytes that have not left. */
size_t wire_queued(const struct wire *w);
/* No more will be written; what is queued still leaves. */
void wire_shutdown(struct wire *w);
/* Whether the peer has closed or broken it, though nothing was read: one system call. */
bool wire_peer_gone(const struct wire *w);
/* Frees it; nothing queued is sent after this. NULL is fine. */
void wire_close(struct wire *w);
/* The same with a reset, so that the peer cannot take it for an end in order. */
void wire_destroy(struct wire *w);
