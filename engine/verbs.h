/*
 * The verbs of run/engine/engine.sock (docs/protocols.md, section 4): one record in, one answer
 * out. Any thread.
 *
 * Takes nothing but ids and bounded values, and checks each itself: the caller is not believed.
 */
#pragma once

#include <stdbool.h>

#include "engine/engine.h"
#include "engine/spec.h"
#include "lib/buf.h"
#include "lib/err.h"
#include "lib/record.h"

#define VERBS_ANSWER_BYTES_MAX (8UL << 20)
#define VERBS_GRACE_S_MAX      60

/* Answers one request into out (records; an error is a record too). pass_fd: the descriptor that
 * came along, or -1; borrowed. -1 when the connection must be closed after the answer: the request
 * broke the protocol. "follow" and "watch" are not
 * answered here. */
int verbs_answer(struct engine *g, const struct record *request, int pass_fd, struct buf *out)
    MUST_CHECK;

/* hello{protocol=1, role=sandboxd}. ERR_PROTOCOL. */
int verbs_check_hello(const struct record *request, struct err *e) MUST_CHECK;
void verbs_write_hello(struct buf *out);

/* One event as a record. */
struct hub_event;
void verbs_write_event(struct buf *out, const struct hub_event *event);

/* The fields of create, checked against what one installation may ask for. ERR_INVALID names the
 * field. Pure. */
int verbs_parse_create(const struct record *request, uint64_t uid_base, uint64_t memory_total_bytes,
                       struct spec_request *ret, struct err *e) MUST_CHECK;
