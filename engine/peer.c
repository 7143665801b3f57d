/*
 * The peer of a control connection. Its credentials are the kernel's, taken when it connected. Any
 * thread.
 */
#include "engine/peer.h"

#include <stdio.h>

#include "engine/cgroup.h"
#include "engine/starting.h"
#include "lib/fd.h"

/* Under gVisor the gofer dials, as root and with a pid of its own: its cgroup says whose gofer it
 * is. */
static int peer_is_gofer(const struct inspect *container, pid_t pid, bool *ret_is_in, struct err *e)
{
    struct err why;
    *ret_is_in = false;
    if (cgroup_has_process(pid, container->container_id, ret_is_in, &why) < 0 &&
        why.code != ERR_NOT_FOUND) {
        *e = why;
        return -1;
    }
    return 0;
}

bool peer_is_starting(const struct config *config, const struct ulid *id, int fd,
                      char ret_detail[PEER_DETAIL_BYTES])
{
    pid_t pid = 0;
    uid_t uid = 0;
    if (config->runsc || fd_peer(fd, &pid, &uid, NULL) < 0 || !starting_is_init(id, pid, uid)) {
        return false;
    }
    (void)snprintf(ret_detail, PEER_DETAIL_BYTES, "pid %d uid %u is number 1 of what is starting",
                   (int)pid, (unsigned)uid);
    return true;
}

int peer_is_init(const struct config *config, const struct inspect *container, int fd,
                 bool *ret_is_init, char ret_detail[PEER_DETAIL_BYTES], struct err *e)
{
    pid_t pid = 0;
    uid_t uid = 0;
    if (fd_peer(fd, &pid, &uid, e) < 0) {
        return err_set(e, ERR_INVALID, 0, "the descriptor is no connected Unix socket");
    }
    (void)snprintf(ret_detail, PEER_DETAIL_BYTES, "pid %d uid %u, the container's pid is %d",
                   (int)pid, (unsigned)uid, (int)container->pid);
    *ret_is_init = false;
    if (container->state != INSPECT_RUNNING || container->pid <= 0 || pid <= 0) {
        return 0;
    }
    if (config->runsc) {
        return peer_is_gofer(container, pid, ret_is_init, e);
    }
    *ret_is_init = pid == container->pid && uid == container->request.uid;
    return 0;
}
