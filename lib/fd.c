/*
 * Descriptors: deadlines, Unix sockets, whole files. Any thread.
 */
#include "lib/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/buf.h"
#include "lib/clock.h"
#include "lib/mem.h"

#define FD_PATH_BYTES 512

void fd_close_cleanup(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

int fd_set_nonblock(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* Waits until the descriptor is ready. 0, or -1 with ERR_TIMEOUT or ERR_IO. */
static int fd_wait(int fd, short events, int64_t deadline_ms, struct err *e)
{
    struct pollfd p = {.fd = fd, .events = events};
    int n = 0;
    do {
        n = poll(&p, 1, clock_until(deadline_ms));
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return err_set(e, ERR_IO, errno, "poll");
    }
    return n == 0 ? err_set(e, ERR_TIMEOUT, 0, "the peer did not answer in time") : 0;
}

int fd_write_all(int fd, const void *bytes, size_t len, int64_t deadline_ms, struct err *e)
{
    const char *at = bytes;
    while (len > 0) {
        if (fd_wait(fd, POLLOUT, deadline_ms, e) != 0) {
            return -1;
        }
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == ENOTSOCK) {
            n = write(fd, at, len);
        }
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (n < 0) {
            return err_set(e, ERR_IO, errno, "write");
        }
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

int fd_read_exact(int fd, void *bytes, size_t len, int64_t deadline_ms, struct err *e)
{
    char *at = bytes;
    while (len > 0) {
        if (fd_wait(fd, POLLIN, deadline_ms, e) != 0) {
            return -1;
        }
        ssize_t n = read(fd, at, len);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (n < 0) {
            return err_set(e, ERR_IO, errno, "read");
        }
        if (n == 0) {
            return err_set(e, ERR_IO, EPIPE, "the peer closed the connection");
        }
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int fd_unix_address(const char *path, struct sockaddr_un *ret, struct err *e)
{
    size_t len = strlen(path);
    if (len >= sizeof(ret->sun_path)) {
        return err_set(
            e, ERR_INVALID, 0,
            "the socket path %s has %zu characters, a Unix socket may have %zu; choose a "
            "shorter data directory",
            path, len, sizeof(ret->sun_path) - 1);
    }
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path, path, len + 1);
    return 0;
}

/* NOLINTNEXTLINE(readability-function-size): mode and owner belong to the moment it is bound */
int fd_unix_listen(const char *path, mode_t mode, uid_t uid, gid_t gid, int backlog, int *ret_fd,
                   struct err *e)
{
    struct sockaddr_un address;
    if (fd_unix_address(path, &address, e) != 0) {
        return -1;
    }
    int fd AUTOCLOSE = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return err_set(e, ERR_IO, errno, "make a Unix socket");
    }
    if (unlink(path) != 0 && errno != ENOENT) {
        return err_set(e, ERR_IO, errno, "remove the old socket %s", path);
    }
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        return err_set(e, ERR_IO, errno, "bind %s", path);
    }
    if (chmod(path, mode) != 0 ||
        ((uid != (uid_t)-1 || gid != (gid_t)-1) && lchown(path, uid, gid) != 0)) {
        return err_set(e, ERR_IO, errno, "set mode and owner of %s", path);
    }
    if (listen(fd, backlog) != 0) {
        return err_set(e, ERR_IO, errno, "listen on %s", path);
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int fd_unix_connect(const char *path, int *ret_fd, struct err *e)
{
    struct sockaddr_un address;
    if (fd_unix_address(path, &address, e) != 0) {
        return -1;
    }
    int fd AUTOCLOSE = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return err_set(e, ERR_IO, errno, "make a Unix socket");
    }
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        return err_set(e, ERR_UNAVAILABLE, errno, "connect to %s", path);
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int fd_peer(int fd, pid_t *ret_pid, uid_t *ret_uid, struct err *e)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0) {
        return err_set(e, ERR_IO, errno, "read the peer's credentials");
    }
    *ret_pid = peer.pid;
    *ret_uid = peer.uid;
    return 0;
}

int fd_read_all(int fd, size_t max, char **ret_text, size_t *ret_len, struct err *e)
{
    BUF_AUTO(content, max);
    for (;;) {
        size_t room = max - content.len < 8192 ? max - content.len : 8192;
        char probe = 0;
        ssize_t n = 0;
        if (room == 0) {
            n = read(fd, &probe, 1);
        } else {
            (void)buf_reserve(&content, room);
            n = read(fd, content.ptr + content.len, room);
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_set(e, ERR_IO, errno, "read");
        }
        if (n == 0) {
            break;
        }
        if (room == 0) {
            return err_set(e, ERR_LIMIT, 0, "more than %zu bytes", max);
        }
        buf_grew(&content, (size_t)n);
    }
    *ret_len = content.len;
    *ret_text = buf_take(&content);
    return 0;
}

int fd_read_file(const char *path, size_t max, char **ret_text, size_t *ret_len, struct err *e)
{
    int fd AUTOCLOSE = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_set(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "open %s", path);
    }
    if (fd_read_all(fd, max, ret_text, ret_len, e) != 0) {
        return err_wrap(e, "%s", path);
    }
    return 0;
}

static int fd_sync_parent(const char *path, struct err *e)
{
    char dir[FD_PATH_BYTES];
    (void)snprintf(dir, sizeof(dir), "%s", path);
    char *slash = strrchr(dir, '/');
    if (!slash) {
        return 0;
    }
    *(slash == dir ? slash + 1 : slash) = '\0';
    int fd AUTOCLOSE = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        return err_set(e, ERR_IO, errno, "sync %s", dir);
    }
    return 0;
}

static int fd_write_content(int fd, struct str content, mode_t mode, const char *path,
                            struct err *e)
{
    size_t done = 0;
    while (done < content.len) {
        ssize_t n = write(fd, content.ptr + done, content.len - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_set(e, ERR_IO, errno, "write %s", path);
        }
        done += (size_t)n;
    }
    /* The mode is exact, whatever the umask. */
    if (fchmod(fd, mode) != 0 || fsync(fd) != 0) {
        return err_set(e, ERR_IO, errno, "sync %s", path);
    }
    return 0;
}

int fd_write_file(const char *path, struct str content, mode_t mode, struct err *e)
{
    uint32_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
        return err_set(e, ERR_IO, errno, "random name for %s", path);
    }
    char temporary[FD_PATH_BYTES];
    int len = snprintf(temporary, sizeof(temporary), "%s.tmp-%08x", path, random);
    if (len < 0 || (size_t)len >= sizeof(temporary)) {
        return err_set(e, ERR_INVALID, 0, "path too long: %s", path);
    }
    int fd AUTOCLOSE = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_set(e, ERR_IO, errno, "create %s", temporary);
    }
    if (fd_write_content(fd, content, mode, path, e) != 0) {
        (void)unlink(temporary);
        return -1;
    }
    if (rename(temporary, path) != 0) {
        (void)err_set(e, ERR_IO, errno, "rename to %s", path);
        (void)unlink(temporary);
        return -1;
    }
    return fd_sync_parent(path, e);
}

void fd_raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        /* The soft limit is what we had; nothing is lost when it stays. */
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}
