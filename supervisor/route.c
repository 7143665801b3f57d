/*
 * Route. It must never wait, and never lead to the relay's own listener. One thread, the relay's.
 */
#include "supervisor/route.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "supervisor/portwatch.h"

#define ROUTE_LOOPBACKS \
    2 /* 127.0.0.1 and ::1 take nearly every app and need no look at the table */

const char *route_result_name(enum route_result result)
{
    static const char *const names[] = {"ok", "refused", "timeout", "unreachable", "timeout"};

    return names[result];
}

static enum route_result route_of_errno(int number)
{
    switch (number) {
    case 0: return ROUTE_OK;
    case EINPROGRESS:
    case EALREADY: return ROUTE_IN_PROGRESS;
    case ECONNREFUSED:
    case ECONNRESET: return ROUTE_REFUSED;
    case ETIMEDOUT: return ROUTE_TIMEOUT;
    default: return ROUTE_UNREACHABLE;
    }
}

enum route_result route_check(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int number = 0;
    socklen_t len = sizeof(number);

    if (poll(&p, 1, 0) == 0) {
        return ROUTE_IN_PROGRESS;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &len) != 0) {
        return ROUTE_UNREACHABLE;
    }
    return route_of_errno(number);
}

static enum route_result route_connect(const struct sockaddr_storage *to, socklen_t to_len,
                                       int *ret_fd)
{
    int one = 1;
    int fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    enum route_result result = ROUTE_UNREACHABLE;

    if (fd < 0) {
        return ROUTE_UNREACHABLE;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    result = route_of_errno(connect(fd, (const struct sockaddr *)to, to_len) == 0 ? 0 : errno);
    if (result == ROUTE_IN_PROGRESS) {
        /* On loopback the answer is there as soon as the call returns. */
        result = route_check(fd);
    }
    if (result == ROUTE_OK || result == ROUTE_IN_PROGRESS) {
        *ret_fd = fd;
    } else {
        (void)close(fd);
    }
    return result;
}

static bool is_loopback(const struct sockets_listener *l)
{
    if (l->is_v6) {
        return IN6_IS_ADDR_UNSPECIFIED(&l->address.v6) || IN6_IS_ADDR_LOOPBACK(&l->address.v6);
    }
    return l->address.v4.s_addr == htonl(INADDR_ANY) ||
           l->address.v4.s_addr == htonl(INADDR_LOOPBACK);
}

/* The listener number `index` of that port which is not on the loopback addresses that were tried
 * already. */
static bool route_from_table(const struct route *r, struct sockets *table, unsigned index,
                             struct sockaddr_storage *ret_to, socklen_t *ret_len)
{
    static struct sockets_list list;

    if (!sockets_read(table, &list)) {
        return false;
    }
    for (size_t i = 0; i < list.count; i++) {
        const struct sockets_listener *l = &list.items[i];

        if (l->port != r->port || is_loopback(l) || !sockets_is_app(l) || index-- > 0) {
            continue;
        }
        *ret_len = sockets_address(l, ret_to);
        return true;
    }
    return false;
}

static bool route_address(const struct route *r, struct sockets *table,
                          struct sockaddr_storage *ret_to, socklen_t *ret_len)
{
    struct sockets_listener loopback = {.port = r->port, .is_v6 = r->tried == 1};

    if (r->tried < ROUTE_LOOPBACKS) {
        *ret_len = sockets_address(&loopback, ret_to);
        return true;
    }
    return route_from_table(r, table, r->tried - ROUTE_LOOPBACKS, ret_to, ret_len);
}

enum route_result route_next(struct route *r, struct sockets *table, int *ret_fd)
{
    struct sockaddr_storage to;
    socklen_t len = 0;

    if (r->port == 0 || r->port == PORTWATCH_RELAY_PORT) {
        return ROUTE_REFUSED;
    }
    while (route_address(r, table, &to, &len)) {
        enum route_result result = route_connect(&to, len, ret_fd);

        r->tried++;
        if (result == ROUTE_OK || result == ROUTE_IN_PROGRESS) {
            return result;
        }
    }
    return ROUTE_REFUSED;
}
