/*
 * Process tree from /proc: who stands below whom. Pure but for tree_read. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/str.h"

#define TREE_PROCESSES_MAX 4096 /* above the pids limit of any sandbox */

struct tree_entry {
    pid_t pid;
    pid_t parent;
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
/* Parses a line of /proc/<pid>/stat; the name in it may hold any byte. */
bool tree_parse_stat(struct str text, pid_t *ret_parent, bool *ret_zombie);
/* Marks everything below root, root excluded; returns how many of them are not zombies. */
size_t tree_mark(struct tree *t, pid_t root);
/* Marks as tree_mark does from PID `root`, but leaves out the branches that begin with one of the
 * `keep` pids. */
size_t tree_mark_except(struct tree *t, pid_t root, const pid_t *keep, size_t keep_count);
/* Sends a signal to every marked process that is not a zombie; returns to how many. */
size_t tree_signal(const struct tree *t, int signal_number);
