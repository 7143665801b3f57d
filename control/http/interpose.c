/*
 * Interposed symbols (see interpose.h). Must never do anything else. Runs on civetweb's threads.
 */
#include "control/http/interpose.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#define INTERPOSE_STACK_BYTES  (512UL * 1024)
#define INTERPOSE_FULL_WAIT_US 50000

/* Remote port → descriptor + 1. Loopback only, so that the port alone tells peers apart. */
static _Atomic int interpose_fds[65536];

static int interpose_port(const struct sockaddr_in *a)
{
    return ntohs(a->sin_port);
}

/* Exported under the library's own name: glibc's prototype with its transparent union cannot be
 * redefined in ISO C. */
int interpose_accept(int listener, struct sockaddr *address, socklen_t *len) __asm__("accept")
    __attribute__((visibility("default")));

int interpose_accept(int listener, struct sockaddr *address, socklen_t *len)
{
    int fd = accept4(listener, address, len, SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE) {
            /* civetweb asks again at once: without a pause its thread eats a whole core. */
            (void)usleep(INTERPOSE_FULL_WAIT_US);
            errno = EMFILE;
        }
        return fd;
    }
    struct sockaddr_in peer;
    socklen_t peer_len = sizeof(peer);
    if (getpeername(fd, (struct sockaddr *)&peer, &peer_len) == 0 && peer.sin_family == AF_INET) {
        atomic_store(&interpose_fds[interpose_port(&peer)], fd + 1);
    }
    return fd;
}

int interpose_find(int remote_port, int local_port)
{
    if (remote_port <= 0 || remote_port > 65535) {
        return -1;
    }
    int fd = atomic_load(&interpose_fds[remote_port]) - 1;
    struct sockaddr_in peer;
    struct sockaddr_in local;
    socklen_t peer_len = sizeof(peer);
    socklen_t local_len = sizeof(local);
    if (fd < 0 || getpeername(fd, (struct sockaddr *)&peer, &peer_len) != 0 ||
        getsockname(fd, (struct sockaddr *)&local, &local_len) != 0 || peer.sin_family != AF_INET ||
        interpose_port(&peer) != remote_port || interpose_port(&local) != local_port) {
        return -1;
    }
    return fd;
}

__attribute__((visibility("default"))) int pthread_attr_setstacksize(pthread_attr_t *attr,
                                                                     size_t size)
{
    static int (*next)(pthread_attr_t *, size_t);
    if (!next) {
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_attr_setstacksize");
    }
    return next(attr, size < INTERPOSE_STACK_BYTES ? INTERPOSE_STACK_BYTES : size);
}

unsigned long interpose_stack_bytes(void)
{
    pthread_attr_t attr;
    size_t size = 0;
    void *base = NULL;
    if (pthread_getattr_np(pthread_self(), &attr) != 0) {
        return 0;
    }
    (void)pthread_attr_getstack(&attr, &base, &size);
    (void)pthread_attr_destroy(&attr);
    return size;
}
