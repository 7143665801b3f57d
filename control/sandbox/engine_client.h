/*
 * Client of sandboxd-engine: one connection per call at a time, kept in a small pool. Calls block
 * up to their deadline.
 */
#pragma once

#include "lib/buf.h"
#include "lib/err.h"
#include "lib/record.h"

struct engine_client;

struct engine_client *engine_client_new(const char *data_dir);
void engine_client_free(struct engine_client *c);

/* Sends the frame in request and reads one answer into in (record borrows from it). An "error"
 * answer is an error with the engine's words. ERR_UNAVAILABLE when the engine's program does not
 * answer. A kept connection that died is dialled anew once. pass_fd: a descriptor to send along, -1
 * for none. */
int engine_call(struct engine_client *c, const struct buf *request, int pass_fd, struct buf *in,
                struct record *ret, int64_t timeout_ms, struct err *e) MUST_CHECK;
/* The same for answers of many records: each is given to fn until "end". */
int engine_call_list(struct engine_client *c, const struct buf *request,
                     void (*fn)(void *ctx, const struct record *r), void *ctx, int64_t timeout_ms,
                     struct err *e) MUST_CHECK;
/* A connection of its own after hello, for follow. Caller closes. */
int engine_dial(struct engine_client *c, int *ret_fd, struct err *e) MUST_CHECK;
