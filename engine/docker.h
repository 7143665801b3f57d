/*
 * Docker Engine API: HTTP over its Unix socket, version negotiated. Any thread; calls block until
 * their deadline.
 *
 * The engine's own words are the message of every error. Nothing but engine/ modules builds paths
 * for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/err.h"
#include "lib/fetch.h"
#include "lib/json_read.h"
#include "lib/mem.h"
#include "lib/str.h"

#define DOCKER_VERSION_BYTES     64
#define DOCKER_TIMEOUT_MS        30000
#define DOCKER_STATUS_TIMEOUT_MS 2000

struct docker; /* handles and the negotiated version; internally locked */

struct docker_version {
    char engine[DOCKER_VERSION_BYTES]; /* "20.10.24" */
    char api[DOCKER_VERSION_BYTES];    /* what we speak: "1.41" */
};

struct docker_request {
    const char *method;
    const char *path;         /* below /v<api>; already encoded */
    struct str body;          /* with content_type; may be empty */
    const char *content_type; /* NULL: application/json when there is a body */
    int64_t timeout_ms;       /* 0: DOCKER_TIMEOUT_MS; negative: none */
    int64_t idle_timeout_ms;
    size_t answer_max; /* 0: 1 MiB */
    fetch_body_fn body_fn;
    fetch_data_fn data_fn;
    fetch_cancel_fn cancel_fn;
    int stop_fd; /* as in lib/fetch.h */
    void *ctx;
};

/* socket_path is borrowed for the life of the object. Does not connect. Never NULL. */
struct docker *docker_new(const char *socket_path);
void docker_free(struct docker *d);

/* Asks the engine for its version now, 2 s at most. ERR_UNAVAILABLE it cannot be reached or is too
 * old or too new. */
int docker_negotiate(struct docker *d, struct docker_version *ret, struct err *e) MUST_CHECK;

/* The same for who asks often: an engine whose version is known is only pinged, 2 s at most. To
 * tell its version it looks at programs of its own, which takes 10 ms; whether it became another is
 * seen when its stream of events breaks. */
int docker_ping(struct docker *d, struct docker_version *ret, struct err *e) MUST_CHECK;

/* One exchange. ret is the caller's (FETCH_ANSWER_AUTO). A status of
 * 400 or more is an error with the engine's own words: 404 ERR_NOT_FOUND, 409 ERR_CONFLICT, 400
 * ERR_INVALID, else ERR_IO ("engine"). */
int docker_call(struct docker *d, const struct docker_request *request, struct fetch_answer *ret,
                struct err *e) MUST_CHECK;

/* The same for a JSON answer; *ret_doc is NULL when there is none. body may be NULL. Caller frees.
 */
int docker_json(struct docker *d, const char *method, const char *path, const struct buf *body,
                struct json_doc **ret_doc, struct err *e) MUST_CHECK;

/* The same, answer thrown away. */
int docker_do(struct docker *d, const char *method, const char *path, const struct buf *body,
              int64_t timeout_ms, struct err *e) MUST_CHECK;

/* The version we speak with an engine that said this at /version. ERR_UNAVAILABLE with the way out.
 * Pure. */
int docker_pick_version(const struct json_value *version, struct docker_version *ret, struct err *e)
    MUST_CHECK;

/* Percent-encodes everything but letters, digits and _ - . ~ and appends it. */
void docker_encode(struct buf *out, struct str text);

/* "2026-11-29T19:00:00.123456789Z" as Unix milliseconds; 0 for the engine's zero time and anything
 * malformed. */
int64_t docker_time_ms(struct str text);

AUTO_DEFINE(docker, docker_free);
