/*
 * Descriptors: closing, deadlines, passing, Unix sockets. Everything is close-on-exec. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/err.h"
#include "lib/str.h"

void fd_close_cleanup(int *fd);
/* int fd AUTOCLOSE = open(…); */
#define AUTOCLOSE __attribute__((cleanup(fd_close_cleanup)))
/* Moves a descriptor out of a variable with AUTOCLOSE. */
#define TAKE_FD(fd)          \
    __extension__({          \
        int take_fd_ = (fd); \
        (fd) = -1;           \
        take_fd_;            \
    })

/* Blocking, whole buffer or error, until the monotonic deadline. ERR_TIMEOUT, ERR_IO; a peer that
 * is gone is ERR_IO with cause EPIPE. Works on blocking and non-blocking descriptors. */
int fd_write_all(int fd, const void *bytes, size_t len, int64_t deadline_ms, struct err *e)
    MUST_CHECK;
int fd_read_exact(int fd, void *bytes, size_t len, int64_t deadline_ms, struct err *e) MUST_CHECK;

int fd_set_nonblock(int fd);

/* A listening Unix stream socket. A dead socket file of that name is unlinked first. mode and owner
 * (-1: leave) are set before it listens. ERR_IO. */
int fd_unix_listen(const char *path, mode_t mode, uid_t uid, gid_t gid, int backlog, int *ret_fd,
                   struct err *e) MUST_CHECK;
/* Connects, blocking, close-on-exec; a Unix connect does not wait but for a full backlog.
 * ERR_UNAVAILABLE. */
int fd_unix_connect(const char *path, int *ret_fd, struct err *e) MUST_CHECK;
/* Credentials of a connected Unix socket's peer. */
int fd_peer(int fd, pid_t *ret_pid, uid_t *ret_uid, struct err *e) MUST_CHECK;

/* Whole file, at most max bytes, as heap memory with a terminating NUL. ERR_NOT_FOUND, ERR_LIMIT,
 * ERR_IO. Caller frees. */
int fd_read_file(const char *path, size_t max, char **ret_text, size_t *ret_len, struct err *e)
    MUST_CHECK;
/* Same from an open descriptor. */
int fd_read_all(int fd, size_t max, char **ret_text, size_t *ret_len, struct err *e) MUST_CHECK;
/* Writes path.tmp-<random>, fsyncs, renames over path, fsyncs the directory. ERR_IO. */
int fd_write_file(const char *path, struct str content, mode_t mode, struct err *e) MUST_CHECK;

/* Raises RLIMIT_NOFILE's soft limit to the hard one. */
void fd_raise_limit(void);
