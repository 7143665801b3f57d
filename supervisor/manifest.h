/*
 * sandbox.yaml: what runs in a sandbox. Parsed strictly; the file belongs to the app and is
 * hostile.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"
#include "lib/str.h"

#define MANIFEST_BYTES_MAX         65536
#define MANIFEST_WORKERS_MAX       16
#define MANIFEST_NAME_BYTES_MAX    64
#define MANIFEST_COMMAND_BYTES_MAX 4096
#define MANIFEST_PATH_BYTES_MAX    256

struct manifest_process {
    char name[MANIFEST_NAME_BYTES_MAX + 1]; /* "web" for the web process */
    char *command;                          /* owned; NULL: absent */
    bool restart_after_task;
};

struct manifest {
    struct manifest_process web; /* command NULL: there is none */
    uint16_t web_port;           /* 0: not said */
    char health_path[MANIFEST_PATH_BYTES_MAX + 1];
    struct manifest_process workers[MANIFEST_WORKERS_MAX];
    size_t worker_count;
};

/* Fills *ret; manifest_done frees. ERR_INVALID: the message names the line and how to mend it. Does
 * not block. */
int manifest_parse(struct str text, struct manifest *ret, struct err *e) MUST_CHECK;
/* Frees what it owns. Accepts a zeroed one. */
void manifest_done(struct manifest *m);
/* Whether package.json's text has scripts.dev. Anything that does not parse has none. */
bool manifest_package_has_dev(struct str text);
/* The manifest of an app that has a package.json with a dev script and no sandbox.yaml.
 * manifest_done frees. */
void manifest_default(struct manifest *ret);
