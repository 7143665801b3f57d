/*
 * Names below the data directory (docs/protocols.md, section 2): the one place that spells them.
 */
#pragma once

#include <stddef.h>

#include "lib/ulid.h"

#define PATHS_MAX 512

/* Each writes a terminated path into out[PATHS_MAX] and returns out. data_dir must be shorter than
 * 256 bytes (checked at start by whoever reads the setting). */
char *paths_join(char out[PATHS_MAX], const char *data_dir, const char *rest);
char *paths_workspace(char out[PATHS_MAX], const char *data_dir, const struct ulid *sandbox);
/* role "control", "in", "out" or "etc". */
char *paths_door(char out[PATHS_MAX], const char *data_dir, const char *role,
                 const struct ulid *sandbox);
/* …/run/<role>/<id>/<role>.sock */
char *paths_door_socket(char out[PATHS_MAX], const char *data_dir, const char *role,
                        const struct ulid *sandbox);
/* …/run/broker/<role>/broker.sock */
char *paths_broker_socket(char out[PATHS_MAX], const char *data_dir, const char *role);
/* …/run/engine/engine.sock */
char *paths_engine_socket(char out[PATHS_MAX], const char *data_dir);

/* Uids of the proxies, from the base. */
#define PATHS_PREVIEW_UID(base)     ((unsigned)(base) - 999U)
#define PATHS_CREDENTIALS_UID(base) ((unsigned)(base) - 998U)
#define PATHS_UID_COUNT             99999U
