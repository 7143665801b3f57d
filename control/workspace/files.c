/*
 * Files of a workspace. Every step is relative to an open directory and refuses links: a tree that
 * changes under us can make a call fail, never make it act elsewhere.
 */
#include "control/workspace/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/workspace/tree.h"
#include "lib/crypto.h"
#include "lib/fd.h"
#include "lib/mem.h"

#define FILES_NAME_MAX  255
#define FILES_DEPTH_MAX 32
#define FILES_DIR_MODE  0700
#define FILES_TRIES     3

static int files_openat(int dir, const char *name, int flags, mode_t mode)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW),
                           .mode = mode,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                      RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    long fd = 0;
    do {
        fd = syscall(SYS_openat2, dir, name, &how, sizeof(how));
    } while (fd < 0 && (errno == EINTR || errno == EAGAIN));
    return (int)fd;
}

int files_open(const char *workspace, int *ret_fd, struct err *e)
{
    int fd = open(workspace, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return err_set(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "open the workspace %s",
                       workspace);
    }
    *ret_fd = fd;
    return 0;
}

/* Removes whatever has that name in an open directory: a tree too. */
static int files_remove(int dir, const char *name, struct err *e)
{
    char path[FILES_NAME_MAX + 64];
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    /* The descriptor's own name leads to the directory it holds, whatever was moved in the
     * meantime. */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
    return tree_remove(path, e);
}

/* Opens a directory in an open one; makes it when it is missing or something else has its name. */
static int files_enter(int dir, const char *name, uid_t uid, int *ret_fd, struct err *e)
{
    int saved = 0;
    for (int i = 0; i < FILES_TRIES; i++) {
        int fd AUTOCLOSE = files_openat(dir, name, O_RDONLY | O_DIRECTORY, 0);
        saved = errno;
        if (fd >= 0) {
            *ret_fd = TAKE_FD(fd);
            return 0;
        }
        if (saved != ENOENT && files_remove(dir, name, e) != 0) {
            return -1;
        }
        if (mkdirat(dir, name, FILES_DIR_MODE) != 0) {
            saved = errno;
            continue;
        }
        fd = files_openat(dir, name, O_RDONLY | O_DIRECTORY, 0);
        if (fd >= 0 && fchown(fd, uid, uid) == 0 && fchmod(fd, FILES_DIR_MODE) == 0) {
            *ret_fd = TAKE_FD(fd);
            return 0;
        }
        saved = errno;
    }
    return err_set(e, ERR_IO, saved, "make the directory %s in the workspace", name);
}

/* Takes the next part of a path; false when it is no name. */
static bool files_part(struct str *rest, char name[FILES_NAME_MAX + 1])
{
    struct str part;
    if (!str_split(rest, '/', &part) || part.len == 0 || part.len > FILES_NAME_MAX ||
        str_is(part, ".") || str_is(part, "..") || memchr(part.ptr, '\0', part.len)) {
        return false;
    }
    memcpy(name, part.ptr, part.len);
    name[part.len] = '\0';
    return true;
}

/* Opens the directory that a path names, or the parent of its last part when ret_last is not NULL.
 */
static int files_walk(int workspace_fd, const char *path, uid_t uid, char *ret_last, int *ret_fd,
                      struct err *e)
{
    char name[FILES_NAME_MAX + 1];
    struct str rest = str_of(path);
    int at AUTOCLOSE = fcntl(workspace_fd, F_DUPFD_CLOEXEC, 0);
    if (at < 0) {
        return err_set(e, ERR_IO, errno, "open the workspace");
    }
    for (int depth = 0; depth < FILES_DEPTH_MAX; depth++) {
        if (!files_part(&rest, name)) {
            return err_set(e, ERR_INVALID, 0, "\"%.200s\" is no path in a workspace", path);
        }
        if (!rest.ptr && ret_last) {
            memcpy(ret_last, name, sizeof(name));
            *ret_fd = TAKE_FD(at);
            return 0;
        }
        int next = -1;
        if (files_enter(at, name, uid, &next, e) != 0) {
            return -1;
        }
        (void)close(at);
        at = next;
        if (!rest.ptr) {
            *ret_fd = TAKE_FD(at);
            return 0;
        }
    }
    return err_set(e, ERR_INVALID, 0, "\"%.200s\" is too deep", path);
}

int files_make_dir(int workspace_fd, const char *path, uid_t uid, struct err *e)
{
    int fd AUTOCLOSE = -1;
    return files_walk(workspace_fd, path, uid, NULL, &fd, e);
}

static int files_write(int fd, struct str content, mode_t mode, uid_t uid)
{
    size_t done = 0;
    while (done < content.len) {
        ssize_t n = write(fd, content.ptr + done, content.len - done);
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return fchown(fd, uid, uid) != 0 || fchmod(fd, mode) != 0 ? -1 : 0;
}

/* Moves the new file over the old name; a directory there is removed first. */
static int files_replace(int dir, const char *temporary, const char *name, struct err *e)
{
    for (int i = 0; i < FILES_TRIES; i++) {
        if (renameat(dir, temporary, dir, name) == 0) {
            return 0;
        }
        int why = errno;
        if (why != EISDIR && why != ENOTEMPTY && why != EEXIST) {
            return err_set(e, ERR_IO, why, "put %s into the workspace", name);
        }
        if (files_remove(dir, name, e) != 0) {
            return -1;
        }
    }
    return err_set(e, ERR_IO, EBUSY, "put %s into the workspace", name);
}

int files_put(int workspace_fd, const char *path, struct str content, mode_t mode, uid_t uid,
              struct err *e)
{
    char name[FILES_NAME_MAX + 1];
    char temporary[32];
    uint32_t random = 0;
    int dir AUTOCLOSE = -1;
    if (files_walk(workspace_fd, path, uid, name, &dir, e) != 0) {
        return -1;
    }
    crypto_random(&random, sizeof(random));
    (void)snprintf(temporary, sizeof(temporary), ".sandboxd-%08x", random);
    int fd AUTOCLOSE = files_openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0) {
        return err_set(e, ERR_IO, errno, "create a file beside %s in the workspace", path);
    }
    if (files_write(fd, content, mode, uid) != 0) {
        (void)err_set(e, ERR_IO, errno, "write %s in the workspace", path);
        (void)unlinkat(dir, temporary, 0);
        return -1;
    }
    if (files_replace(dir, temporary, name, e) != 0) {
        (void)unlinkat(dir, temporary, 0);
        return -1;
    }
    return 0;
}

static bool files_is_kept(int dir, const char *name, const char *const *keep)
{
    struct stat st;
    for (size_t i = 0; keep && keep[i]; i++) {
        if (strcmp(keep[i], name) == 0) {
            return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
        }
    }
    return false;
}

int files_clear_dir(int workspace_fd, const char *path, const char *const *keep, uid_t uid,
                    struct err *e)
{
    int fd AUTOCLOSE = -1;
    if (files_walk(workspace_fd, path, uid, NULL, &fd, e) != 0) {
        return -1;
    }
    int listed AUTOCLOSE = files_openat(fd, ".", O_RDONLY | O_DIRECTORY, 0);
    DIR *dir = listed >= 0 ? fdopendir(listed) : NULL;
    if (!dir) {
        return err_set(e, ERR_IO, errno, "list %s in the workspace", path);
    }
    listed = -1;
    struct dirent *entry = NULL;
    int rc = 0;
    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !files_is_kept(fd, name, keep)) {
            rc = files_remove(fd, name, e);
        }
    }
    (void)closedir(dir);
    return rc;
}
