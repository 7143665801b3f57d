/*
 * Trees. Jobs of the sandbox service. Works relative to open directories, so that a link put in
 * place of one is not followed.
 */
#include "control/workspace/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/mem.h"
#include "lib/ulid.h"

/* A path of PATH_MAX bytes has at most 2,048 levels; each level costs one open directory. */
#define TREE_DEPTH_MAX   256
#define TREE_BLOCK_BYTES 512

static DIR *tree_open(int parent, const char *name)
{
    int fd AUTOCLOSE = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir) {
        fd = -1;
    }
    return dir;
}

static bool tree_is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

struct tree_walk {
    DIR *open[TREE_DEPTH_MAX]; /* owned */
    int depth;                 /* how many are open */
    dev_t device;
    int64_t bytes;
    int64_t deadline_ms;
    bool complete;
};

static void tree_enter(struct tree_walk *w, int parent, const char *name)
{
    DIR *dir = w->depth < TREE_DEPTH_MAX ? tree_open(parent, name) : NULL;
    if (!dir) {
        w->complete = false;
        return;
    }
    w->open[w->depth++] = dir;
}

static void tree_count(struct tree_walk *w, const struct dirent *entry)
{
    struct stat st;
    int parent = dirfd(w->open[w->depth - 1]);
    if (fstatat(parent, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return; /* gone since it was listed */
    }
    w->bytes += (int64_t)st.st_blocks * TREE_BLOCK_BYTES;
    if (S_ISDIR(st.st_mode) && st.st_dev == w->device) {
        tree_enter(w, parent, entry->d_name);
    }
}

int tree_measure(const char *path, int64_t budget_ms, int64_t *ret_bytes, bool *ret_complete,
                 struct err *e)
{
    struct tree_walk *w AUTOFREE = mem_alloc(sizeof(*w));
    struct stat st;
    w->complete = true;
    w->deadline_ms = clock_mono_ms() + budget_ms;
    if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return err_set(e, ERR_NOT_FOUND, 0, "%s is no directory", path);
    }
    w->device = st.st_dev;
    tree_enter(w, AT_FDCWD, path);
    while (w->depth > 0) {
        struct dirent *entry = readdir(w->open[w->depth - 1]);
        bool late = clock_mono_ms() > w->deadline_ms;
        w->complete = w->complete && !late;
        if (!entry || late) {
            (void)closedir(w->open[--w->depth]);
        } else if (!tree_is_dots(entry->d_name)) {
            tree_count(w, entry);
        }
    }
    *ret_bytes = w->bytes;
    *ret_complete = w->complete;
    return 0;
}

/* Too deep to be entered where it is: moved to the top, where its turn comes again. Nobody works in
 * a tree that is removed, so that a name of ours is free. */
static bool tree_lift(struct tree_walk *w, int parent, const char *name)
{
    struct ulid fresh = ulid_new();
    return w->depth == TREE_DEPTH_MAX && renameat(parent, name, dirfd(w->open[0]), fresh.text) == 0;
}

/* Removes what can be removed at this level; enters the first directory that is not empty. Returns
 * true when it entered one. */
static bool tree_remove_level(struct tree_walk *w)
{
    DIR *dir = w->open[w->depth - 1];
    struct dirent *entry = NULL;
    size_t seen = 0;
    rewinddir(dir);
    while ((entry = readdir(dir)) != NULL) {
        seen += tree_is_dots(entry->d_name) ? 0 : 1;
        if (tree_is_dots(entry->d_name) || unlinkat(dirfd(dir), entry->d_name, 0) == 0 ||
            unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR) == 0) {
            continue;
        }
        if (tree_lift(w, dirfd(dir), entry->d_name)) {
            continue;
        }
        int before = w->depth;
        tree_enter(w, dirfd(dir), entry->d_name);
        if (w->depth > before) {
            return true;
        }
    }
    if (seen == 0 && w->depth > 1) {
        /* Empty, and yet its parent could not remove it: a mount point. Entering it again would
         * never end. */
        w->complete = false;
    }
    return false;
}

/* Empties an open directory, depth first. */
static void tree_empty(struct tree_walk *w)
{
    while (w->depth > 0) {
        if (tree_remove_level(w)) {
            continue;
        }
        (void)closedir(w->open[--w->depth]);
        if (w->depth > 0 && !w->complete) {
            /* Too deep or not ours to open: give up on the whole, the caller says so. */
            while (w->depth > 0) {
                (void)closedir(w->open[--w->depth]);
            }
        }
    }
}

int tree_remove(const char *path, struct err *e)
{
    struct tree_walk *w AUTOFREE = mem_alloc(sizeof(*w));
    struct stat st;
    w->complete = true;
    if (lstat(path, &st) != 0) {
        return errno == ENOENT ? 0 : err_set(e, ERR_IO, errno, "look at %s", path);
    }
    if (!S_ISDIR(st.st_mode)) {
        return err_set(e, ERR_CONFLICT, 0, "%s is not the directory sandboxd made; it stays", path);
    }
    tree_enter(w, AT_FDCWD, path);
    tree_empty(w);
    if (rmdir(path) != 0 && errno != ENOENT) {
        return err_set(e, ERR_IO, errno, "remove %s", path);
    }
    return 0;
}
