/*
 * What Docker says about one container, read into a struct. Parser pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/config.h"
#include "engine/docker.h"
#include "engine/network.h"
#include "engine/spec.h"
#include "lib/crypto.h"
#include "lib/err.h"
#include "lib/ulid.h"

#define INSPECT_ID_BYTES    65
#define INSPECT_ERROR_BYTES 512

enum inspect_state {
    INSPECT_MISSING,
    INSPECT_CREATED,
    INSPECT_RUNNING,
    INSPECT_PAUSED,
    INSPECT_EXITED,
};

struct inspect {
    struct ulid id;
    enum inspect_state state;
    char container_id[INSPECT_ID_BYTES];
    pid_t pid; /* 0 unless it runs */
    int64_t exit_code;
    bool is_oom;
    bool is_ours; /* has this instance's label and the sandbox's own */
    int64_t started_at_ms;
    int64_t finished_at_ms;
    char spec[CRYPTO_SHA256_HEX];
    char network_id[NETWORK_ID_BYTES]; /* of our bridge; "" when not attached */
    struct spec_request request;     /* as the label says; uid 0 when it is missing or malformed */
    char error[INSPECT_ERROR_BYTES]; /* the engine's words about the last start */
};

/* A container that does not exist is INSPECT_MISSING, no error. One of that name that is not of
 * this instance is ERR_CONFLICT. */
int inspect_container(struct docker *docker, const struct config *config, const struct ulid *id,
                      struct inspect *ret, struct err *e) MUST_CHECK;

/* Parser of GET /containers/<name>/json. ERR_IO when it is not what Docker answers. */
int inspect_parse(const struct json_value *v, const struct config *config, const struct ulid *id,
                  struct inspect *ret, struct err *e) MUST_CHECK;

/* Parser of one item of GET /containers/json, which tells id, container_id and state and costs the
 * engine next to nothing. False for what is not a sandbox of this instance by labels and name. */
bool inspect_parse_item(const struct json_value *v, const struct config *config,
                        struct inspect *ret);

/* "missing", "created", … */
const char *inspect_state_name(enum inspect_state state);
