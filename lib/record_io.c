/*
 * Records over sockets: blocking exchange with deadlines, and one descriptor along with it.
 * Caller's thread.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/record.h"

int record_send(int fd, const struct buf *frames, int64_t deadline_ms, struct err *e)
{
    return fd_write_all(fd, frames->ptr, frames->len, deadline_ms, e);
}

int record_send_fd(int fd, const struct buf *frames, int pass_fd, int64_t deadline_ms,
                   struct err *e)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = frames->ptr, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &pass_fd, sizeof(int));
    ssize_t n = 0;
    do {
        n = sendmsg(fd, &message, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n != 1) {
        return err_set(e, ERR_IO, errno, "pass a descriptor");
    }
    return fd_write_all(fd, frames->ptr + 1, frames->len - 1, deadline_ms, e);
}

static void record_close_fds(const struct cmsghdr *head, int *ret_fd, int *count)
{
    size_t fds = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < fds; i++) {
        int fd = -1;
        memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
        if ((*count)++ == 0) {
            *ret_fd = fd;
        } else {
            (void)close(fd);
        }
    }
}

/* Reads the first byte of the length prefix and the descriptor that may come with it. */
static int record_recv_first(int fd, char *first, int *ret_fd, struct err *e)
{
    union {
        char bytes[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = first, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t n = 0;
    do {
        n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        return n < 0 ? err_set(e, ERR_IO, errno, "read")
                     : err_set(e, ERR_IO, EPIPE, "the peer closed the connection");
    }
    int count = 0;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
            record_close_fds(head, ret_fd, &count);
        }
    }
    if (count > 1 || (message.msg_flags & MSG_CTRUNC)) {
        return err_set(e, ERR_PROTOCOL, 0, "more than one descriptor in a record");
    }
    return 0;
}

static int record_recv_body(int fd, char first, struct buf *in, struct record *ret,
                            int64_t deadline_ms, struct err *e)
{
    buf_reset(in);
    if (!buf_reserve(in, 4)) {
        return err_set(e, ERR_INTERNAL, 0, "a record buffer that is too small");
    }
    in->ptr[0] = first;
    if (fd_read_exact(fd, in->ptr + 1, 3, deadline_ms, e) != 0) {
        return -1;
    }
    buf_grew(in, 4);
    struct str frame;
    if (record_next(in, &frame, e) < 0) {
        return -1;
    }
    size_t len = (size_t)(uint8_t)in->ptr[0] << 24 | (size_t)(uint8_t)in->ptr[1] << 16 |
                 (size_t)(uint8_t)in->ptr[2] << 8 | (size_t)(uint8_t)in->ptr[3];
    if (!buf_reserve(in, len)) {
        return err_set(e, ERR_PROTOCOL, 0, "a record longer than its reader takes");
    }
    if (fd_read_exact(fd, in->ptr + 4, len, deadline_ms, e) != 0) {
        return -1;
    }
    buf_grew(in, len);
    return record_parse((struct str){in->ptr + 4, len}, ret, e);
}

int record_recv_fd(int fd, struct buf *in, struct record *ret, int *ret_pass_fd,
                   int64_t deadline_ms, struct err *e)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n = 0;
    do {
        n = poll(&p, 1, clock_until(deadline_ms));
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        return err_set(e, n == 0 ? ERR_TIMEOUT : ERR_IO, n == 0 ? 0 : errno,
                       "the peer did not answer in time");
    }
    char first = 0;
    int passed AUTOCLOSE = -1;
    if (record_recv_first(fd, &first, &passed, e) != 0 ||
        record_recv_body(fd, first, in, ret, deadline_ms, e) != 0) {
        return -1;
    }
    *ret_pass_fd = TAKE_FD(passed);
    return 0;
}

int record_recv(int fd, struct buf *in, struct record *ret, int64_t deadline_ms, struct err *e)
{
    int passed AUTOCLOSE = -1;
    return record_recv_fd(fd, in, ret, &passed, deadline_ms, e);
}
