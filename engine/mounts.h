/*
 * What a started container has really mounted: between our check of a source and Docker's mount of
 * it somebody could have put a symlink there. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "engine/checks.h"
#include "lib/err.h"
#include "lib/str.h"

#define MOUNTS_PATH_BYTES 1024
#define MOUNTS_ID_BYTES   65

/* Compares every bind mount of the process with the source it must be. ERR_FORBIDDEN names the
 * first that differs; ERR_NOT_FOUND when the process is gone. */
int mounts_verify(const struct config *config, pid_t pid, const struct checks_sources *sources,
                  struct err *e) MUST_CHECK;

/* Id of the container we run in ourselves, out of our own mountinfo: Docker mounts a file of the
 * container's folder at /etc/hostname. False outside of one. Pure. */
bool mounts_own_container(struct str text, char ret_id[MOUNTS_ID_BYTES]);
/* The same over our own mounts. */
bool mounts_find_own_container(char ret_id[MOUNTS_ID_BYTES]);

/* One line of mountinfo. Paths are unescaped. Pure. */
struct mounts_line {
    struct str device; /* "8:1"; borrowed from the text */
    char root[MOUNTS_PATH_BYTES];
    char target[MOUNTS_PATH_BYTES];
};

bool mounts_parse_line(struct str line, struct mounts_line *ret);
/* The last line (the one on top) whose target is exactly that path. False when there is none. */
bool mounts_find(struct str text, const char *target, struct mounts_line *ret);
/* The last line whose target is that path or a folder above it, the longest one. */
bool mounts_find_above(struct str text, const char *path, struct mounts_line *ret);
