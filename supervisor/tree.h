/*
 * Process tree from /proc: who stands below whom. Pure but for tree_read. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/str.h"

#define TREE_PROCESSES_MAX 4096 /* above the pids limit of any sandbox */

struct tree_entry {
    pid_t pid;
    pid_t parent;
    uint64_t started; /* clock ticks since the machine began; 0: not told */
    bool zombie;
    bool below; /* filled by tree_mark */
};

struct tree {
    size_t count;
    struct tree_entry entries[TREE_PROCESSES_MAX];
};

/* Fills t from /proc. Processes that end meanwhile are left out. False when /proc cannot be read.
 */
bool tree_read(struct tree *t);
/* Reads one process. False when there is none of that pid. */
bool tree_read_one(pid_t pid, struct tree_entry *ret_entry);
/* Parses a line of /proc/<pid>/stat; the name in it may hold any byte. Fills all but pid. */
bool tree_parse_stat(struct str text, struct tree_entry *ret_entry);

/* Branches that begin right below the root and are left out. */
struct tree_keep {
    const pid_t *pids;
    size_t count;
    uint64_t started_before; /* ticks; 0: none for their age */
};

/* Marks everything below root, root and kept branches (NULL: none) excluded; returns how many of it
 * are not zombies. */
size_t tree_mark(struct tree *t, pid_t root, const struct tree_keep *keep);
/* Sends a signal to every marked process that is not a zombie; returns to how many. */
size_t tree_signal(const struct tree *t, int signal_number);
