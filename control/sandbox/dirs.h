/*
 * Directories below the data directory (docs/protocols.md, section 2): made and repaired with exact
 * owners and modes.
 */
#pragma once

#include <stdint.h>

#include "control/config.h"
#include "lib/err.h"
#include "lib/ulid.h"

/* Everything that is not per sandbox; copies the supervisor to init/<version>/ and returns the
 * version (16 hex digits). ERR_IO names the path. */
int dirs_prepare(const char *data_dir, uint32_t uid_base, const char *init_source,
                 char ret_version[17], struct err *e) MUST_CHECK;
/* Makes workspaces/<id> for a new sandbox, owned by uid and marked (marks.h). Fails when it exists
 * with another owner, and when workspaces/ is not this installation's. */
int dirs_make_workspace(const char *data_dir, const struct ulid *id, uint32_t uid, struct err *e)
    MUST_CHECK;
/* Doors, passwd and group of one sandbox. Idempotent. */
int dirs_make_doors(const struct config *config, const struct ulid *id, uint32_t uid, struct err *e)
    MUST_CHECK;
/* Removes doors and run/etc of one sandbox. Idempotent. */
void dirs_remove_doors(const char *data_dir, const struct ulid *id);
