/*
 * Checks of what is about to be mounted: every directory is the one section 2 of docs/protocols.md
 * names, with exactly its owner, and no symlink stands anywhere below the data directory. Any
 * thread.
 *
 * Opened with openat2, at the moment of use: whoever writes the data directory may have changed it
 * since the last look.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/config.h"
#include "lib/err.h"
#include "lib/paths.h"
#include "lib/ulid.h"

#define CHECKS_INIT_VERSION_LEN 16
#define CHECKS_SOURCES_MAX      8

enum checks_source_id {
    CHECKS_WORKSPACE,
    CHECKS_CONTROL,
    CHECKS_IN,
    CHECKS_OUT,
    CHECKS_INIT,
    CHECKS_PASSWD,
    CHECKS_GROUP,
    CHECKS_RESOLV, /* gVisor only */
};

/* One bind mount of a sandbox. */
struct checks_source {
    const char *target; /* inside; a literal */
    char source[PATHS_MAX];
    bool is_file;
    bool is_read_only;
    uint64_t uid; /* the only owner that is accepted, uid and gid */
    uint32_t mode;
};

struct checks_sources {
    struct checks_source items[CHECKS_SOURCES_MAX];
    size_t count;
};

/* The mounts of a sandbox, in the order of their targets. Looks at nothing. */
void checks_sources_list(const struct config *config, const struct ulid *id, uint64_t uid,
                         const char *init_version, struct checks_sources *ret);

/* Opens and checks each. ERR_FORBIDDEN names the path and what is wrong; ERR_NOT_FOUND. */
int checks_sources_verify(const struct config *config, const struct checks_sources *sources,
                          struct err *e) MUST_CHECK;

/* 16 hex digits in lower case. */
bool checks_init_version_is_valid(struct str text);

/* SHA-256 of init/<version>/sandboxd-init begins with that version, and the file is root's.
 * ERR_FORBIDDEN, ERR_NOT_FOUND. */
int checks_init_verify(const struct config *config, const char *version, struct err *e) MUST_CHECK;
