/*
 * The server's request to itself. The main thread at start; self_test_note on workers.
 */
#include "control/http/self_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>

#include "lib/clock.h"
#include "lib/fd.h"

#define SELF_TEST_MS          5000
#define SELF_TEST_STACK_BYTES (500UL * 1024)

static atomic_int self_test_fd = -1;
static _Atomic unsigned long self_test_stack;

void self_test_note(int fd, unsigned long stack_bytes)
{
    atomic_store(&self_test_fd, fd);
    atomic_store(&self_test_stack, stack_bytes);
}

static int self_test_connect(uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd AUTOCLOSE = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&a, sizeof(a)) != 0) {
        return -1;
    }
    return TAKE_FD(fd);
}

bool self_test_port_answers(uint16_t port)
{
    int fd AUTOCLOSE = self_test_connect(port);
    return fd >= 0;
}

int self_test_run(uint16_t port, struct err *e)
{
    char request[96];
    char head[12];
    int64_t deadline_ms = clock_mono_ms() + SELF_TEST_MS;
    int fd AUTOCLOSE = self_test_connect(port);
    int len = snprintf(request, sizeof(request),
                       "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", port);
    if (fd < 0) {
        return err_set(e, ERR_INTERNAL, 0, "our own port %u does not answer", port);
    }
    if (fd_write_all(fd, request, (size_t)len, deadline_ms, e) != 0 ||
        fd_read_exact(fd, head, sizeof(head), deadline_ms, e) != 0) {
        return err_wrap(e, "ask our own port %u", port);
    }
    if (atomic_load(&self_test_fd) < 0 || atomic_load(&self_test_stack) < SELF_TEST_STACK_BYTES) {
        return err_set(e, ERR_INTERNAL, 0,
                       "this build does not replace accept and pthread_attr_setstacksize of the C "
                       "library (descriptor %d, stack %lu bytes); it was linked wrongly",
                       atomic_load(&self_test_fd), atomic_load(&self_test_stack));
    }
    return 0;
}
