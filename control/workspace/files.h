/*
 * Writing into a workspace from the host. The workspace is hostile: nothing here follows a link,
 * opens what could block, or leaves the directory it was given. Any thread; blocks for the disk's
 * time only.
 */
#pragma once

#include <sys/types.h>

#include "lib/err.h"
#include "lib/str.h"

/* Opens a workspace's own directory for the calls below. ERR_NOT_FOUND, ERR_IO. Caller closes. */
int files_open(const char *workspace, int *ret_fd, struct err *e) MUST_CHECK;

/* Paths below are relative, "/" separated, without empty parts, "." and "..". Whatever stands in
 * the way of a directory of ours (link, fifo, file) is removed first. New directories are 0700, all
 * of it is owned by uid:uid. */

/* Makes a directory and its parents. */
int files_make_dir(int workspace_fd, const char *path, uid_t uid, struct err *e) MUST_CHECK;
/* Puts a file in place of whatever has its name, atomically, and makes its parents. ERR_IO also
 * when a quota is full: then the old file stays. */
int files_put(int workspace_fd, const char *path, struct str content, mode_t mode, uid_t uid,
              struct err *e) MUST_CHECK;
/* Empties a directory but for the names in keep (ended by NULL) that are directories. Makes it when
 * it is missing. */
int files_clear_dir(int workspace_fd, const char *path, const char *const *keep, uid_t uid,
                    struct err *e) MUST_CHECK;
