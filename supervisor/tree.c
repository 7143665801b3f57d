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

#define TREE_FIELDS_TO_START 18 /* from the parent to the start time, see proc(5) */
#define TREE_STAT_BYTES \
    512 /* pid, name of at most 64 escaped bytes, state, parent stand in front */

/* The field `count` fields further on. */
static bool tree_skip_to(struct str *rest, int count, struct str *ret_field)
{
    for (int i = 0; i < count; i++) {
        if (!str_split(rest, ' ', ret_field)) {
            return false;
        }
    }
    return true;
}

bool tree_parse_stat(struct str text, struct tree_entry *ret_entry)
{
    size_t end = text.len;
    uint64_t parent = 0;
    struct str state;
    struct str field;
    struct str rest;

    /* The name is in brackets and may hold brackets itself: the last one ends it. */
    while (end > 0 && text.ptr[end - 1] != ')') {
        end--;
    }
    rest = str_cut(text, end + 1, text.len);
    if (end == 0 || !str_split(&rest, ' ', &state) || state.len != 1 ||
        !str_split(&rest, ' ', &field) || !str_to_u64(field, INT32_MAX, &parent)) {
        return false;
    }
    ret_entry->zombie = state.ptr[0] == 'Z' || state.ptr[0] == 'X';
    ret_entry->parent = (pid_t)parent;
    if (!tree_skip_to(&rest, TREE_FIELDS_TO_START, &field) ||
        !str_to_u64(field, UINT64_MAX, &ret_entry->started)) {
        ret_entry->started = 0;
    }
    return true;
}

bool tree_read_one(pid_t pid, struct tree_entry *ret_entry)
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
    return len > 0 && tree_parse_stat(str_n(text, (size_t)len), ret_entry);
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

static bool tree_is_kept(const struct tree_entry *entry, pid_t root, const struct tree_keep *keep)
{
    if (!keep || entry->parent != root) {
        return false;
    }
    for (size_t i = 0; i < keep->count; i++) {
        if (keep->pids[i] == entry->pid) {
            return true;
        }
    }
    return entry->started < keep->started_before;
}

/* One pass downwards; true when it marked anything new. */
static bool tree_mark_pass(struct tree *t, pid_t root, const struct tree_keep *keep)
{
    bool changed = false;

    for (size_t i = 0; i < t->count; i++) {
        struct tree_entry *entry = &t->entries[i];

        if (!entry->below && entry->pid != root && !tree_is_kept(entry, root, keep) &&
            tree_is_below(t, entry->parent, root)) {
            entry->below = true;
            changed = true;
        }
    }
    return changed;
}

size_t tree_mark(struct tree *t, pid_t root, const struct tree_keep *keep)
{
    size_t alive = 0;

    for (size_t i = 0; i < t->count; i++) {
        t->entries[i].below = false;
    }
    while (tree_mark_pass(t, root, keep)) {
    }
    for (size_t i = 0; i < t->count; i++) {
        alive += t->entries[i].below && !t->entries[i].zombie;
    }
    return alive;
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
