/*
 * Marks: small files by which a directory proves that it is the one we made. An empty directory
 * where a data disk should be mounted has none, so that no app ever starts on an empty workspace
 * and none is made on the wrong disk.
 *
 *   workspaces/<id>/.sandboxd/id            the sandbox's id
 *   state/instance, workspaces/.instance    the same id of the installation in both
 */
#pragma once

#include <stdint.h>

#include "lib/err.h"
#include "lib/ulid.h"

/* At a start: makes the installation's mark where there is none at all. ERR_IO. */
int marks_prepare(const char *data_dir, struct err *e) MUST_CHECK;
/* workspaces/ belongs to this installation's state/. ERR_NOT_FOUND tagged workspace_missing says
 * what to do. */
int marks_check_disk(const char *data_dir, struct err *e) MUST_CHECK;

/* Marks a new workspace whose .sandboxd/ was just made and which nobody else can write yet. */
int marks_write(const char *data_dir, const struct ulid *id, struct err *e) MUST_CHECK;
/* The workspace is there, uid's, and carries its mark. One from before there were marks gets it:
 * its .sandboxd/ of root is proof enough. ERR_NOT_FOUND tagged workspace_missing. */
int marks_check(const char *data_dir, const struct ulid *id, uint32_t uid, struct err *e)
    MUST_CHECK;
