/*
 * Dialling a Unix socket. It must never block: a full backlog is an answer. Any thread.
 */
#include "supervisor/dial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/fd.h"

int dial_unix(const char *path, int *ret_fd, struct err *e)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd AUTOCLOSE = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || strlen(path) >= sizeof(to.sun_path)) {
        return err_set(e, ERR_UNAVAILABLE, errno, "make a socket for %s", path);
    }
    (void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0) {
        return err_set(e, errno == EAGAIN ? ERR_BUSY : ERR_UNAVAILABLE, errno, "dial %s", path);
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}
