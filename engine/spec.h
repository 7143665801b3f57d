/*
 * What a sandbox's container is: the JSON for Docker, and the hash that says whether a container is
 * today's. Pure, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/checks.h"
#include "engine/config.h"
#include "lib/buf.h"
#include "lib/crypto.h"
#include "lib/err.h"
#include "lib/ulid.h"

#define SPEC_IMAGE_BYTES    64
#define SPEC_REQUEST_BYTES  256
#define SPEC_APP_NAME_BYTES 1024
#define SPEC_NAME_BYTES     (ULID_LEN + 3)

#define SPEC_LABEL_INSTANCE "sandboxd.instance"
#define SPEC_LABEL_SANDBOX  "sandboxd.sandbox"
#define SPEC_LABEL_APP_NAME "sandboxd.app-name"
#define SPEC_LABEL_SPEC     "sandboxd.spec"
#define SPEC_LABEL_REQUEST  "sandboxd.request"

/* What the control plane asks for; checked before it gets here. */
struct spec_request {
    struct ulid id;
    uint64_t uid;
    char image[SPEC_IMAGE_BYTES];
    char init[CHECKS_INIT_VERSION_LEN + 1];
    uint64_t memory_bytes; /* 0: the default */
    uint64_t cpus_milli;   /* 0: the default */
    char app_name[SPEC_APP_NAME_BYTES];
};

/* What the engine makes of it. */
struct spec {
    const struct config *config; /* borrowed */
    struct spec_request request;
    const char *tag;      /* borrowed */
    const char *image_id; /* borrowed */
    uint64_t memory_bytes;
    uint64_t cpus_milli; /* 0: no limit */
    uint64_t nofile;     /* 0: leave it to the engine */
};

/* "s-<id>" */
void spec_name(const struct ulid *id, char ret_name[SPEC_NAME_BYTES]);

/* The body of POST /containers/create, labels included. Appends. ERR_LIMIT. */
int spec_write(const struct spec *spec, struct buf *out, struct err *e) MUST_CHECK;
/* Hash of everything the engine decides: all but the app's name. */
int spec_hash(const struct spec *spec, char ret_hex[CRYPTO_SHA256_HEX], struct err *e) MUST_CHECK;

/* The request in one label, so that a container says what it was asked to be. */
void spec_request_write(const struct spec_request *request, char text[SPEC_REQUEST_BYTES]);
/* Back; app_name is not part of it. False when malformed. */
bool spec_request_parse(struct str text, struct spec_request *ret);
