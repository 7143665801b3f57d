/*
 * Process tree from /proc. It must never signal what it did not find below its root. One thread: a
 * runner's or PID 1's.
 */
#include "supervisor/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/fd.h"

#define TREE_STAT_BYTES \
    512 /* pid, name of at most 64 escaped bytes, state, parent stand in front */

bool tree_parse_stat(struct str text, pid_t *ret_parent, bool *ret_zombie)
{
    size_t end = text.len;
    uint64_t parent = 0;
    struct str part;
    struct str rest;

    /* The name is in brackets and may hold brackets itself: the last one ends it. */
    while (end > 0 && text.ptr[end - 1] != ')') {
        end--;
    }
    if (end == 0) {
        return false;
    }
    rest = str_cut(text, end + 1, text.len);
    if (!str_split(&rest, ' ', &part) || part.len != 1) {
        return false;
    }
    *ret_zombie = part.ptr[0] == 'Z' || part.ptr[0] == 'X';
    if (!str_split(&rest, ' ', &part) || !str_to_u64(part, INT32_MAX, &parent)) {
        return false;
    }
    *ret_parent = (pid_t)parent;
    return true;
}

static bool tree_read_one(pid_t pid, struct tree_entry *ret_entry)
{
    char path[32];
    char text[TREE_STAT_BYTES];
    int fd AUTOCLOSE = -1;
    ssize_t len = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    len = read(fd, text, sizeof(text));
    *ret_entry = (struct tree_entry){.pid = pid};
    return len > 0 &&
           tree_parse_stat(str_n(text, (size_t)len), &ret_entry->parent, &ret_entry->zombie);
}

bool tree_read(struct tree *t)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry = NULL;
    uint64_t pid = 0;

    t->count = 0;
    if (!proc) {
        return false;
    }
    while (t->count < TREE_PROCESSES_MAX && (entry = readdir(proc)) != NULL) {
        if (str_to_u64(str_of(entry->d_name), INT32_MAX, &pid) &&
            tree_read_one((pid_t)pid, &t->entries[t->count])) {
            t->count++;
        }
    }
    (void)closedir(proc);
    return true;
}

static bool tree_is_below(const struct tree *t, pid_t parent, pid_t root)
{
    if (parent == root) {
        return true;
    }
    for (size_t i = 0; i < t->count; i++) {
        if (t->entries[i].pid == parent) {
            return t->entries[i].below;
        }
    }
    return false;
}

static bool tree_is_kept(pid_t pid, const pid_t *keep, size_t keep_count)
{
    for (size_t i = 0; i < keep_count; i++) {
        if (keep[i] == pid) {
            return true;
        }
    }
    return false;
}

/* One pass downwards; true when it marked anything new. */
static bool tree_mark_pass(struct tree *t, pid_t root, const pid_t *keep, size_t keep_count)
{
    bool changed = false;

    for (size_t i = 0; i < t->count; i++) {
        struct tree_entry *entry = &t->entries[i];

        if (!entry->below && entry->pid != root && !tree_is_kept(entry->pid, keep, keep_count) &&
            tree_is_below(t, entry->parent, root)) {
            entry->below = true;
            changed = true;
        }
    }
    return changed;
}

size_t tree_mark_except(struct tree *t, pid_t root, const pid_t *keep, size_t keep_count)
{
    size_t alive = 0;

    for (size_t i = 0; i < t->count; i++) {
        t->entries[i].below = false;
    }
    while (tree_mark_pass(t, root, keep, keep_count)) {
    }
    for (size_t i = 0; i < t->count; i++) {
        alive += t->entries[i].below && !t->entries[i].zombie;
    }
    return alive;
}

size_t tree_mark(struct tree *t, pid_t root)
{
    return tree_mark_except(t, root, NULL, 0);
}

size_t tree_signal(const struct tree *t, int signal_number)
{
    size_t sent = 0;

    for (size_t i = 0; i < t->count; i++) {
        const struct tree_entry *entry = &t->entries[i];

        if (entry->below && !entry->zombie && kill(entry->pid, signal_number) == 0) {
            sent++;
        }
    }
    return sent;
}
