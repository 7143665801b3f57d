/*
 * Netlink for the walls. Reads notifications only to know that something changed; believes none of
 * their content.
 */
#include "engine/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/fd.h"

#define ANSWER_BYTES     4096
#define ANSWER_TIMEOUT_S 2

static int netlink_open(unsigned flags, int *ret_fd, struct err *e)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | (int)flags, NETLINK_NETFILTER);
    if (fd < 0) {
        return err_set(e, ERR_IO, errno, "walls: netlink");
    }
    *ret_fd = fd;
    return 0;
}

int netlink_watch_open(int *ret_fd, struct err *e)
{
    struct sockaddr_nl self = {.nl_family = AF_NETLINK};
    int group = NFNLGRP_NFTABLES;
    int fd AUTOCLOSE = -1;
    if (netlink_open(SOCK_NONBLOCK, &fd, e) < 0) {
        return -1;
    }
    if (bind(fd, (struct sockaddr *)&self, sizeof(self)) < 0 ||
        setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) < 0) {
        return err_set(e, ERR_IO, errno, "watch nftables");
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

void netlink_watch_drain(int fd)
{
    char bytes[ANSWER_BYTES];
    /* ENOBUFS says that notifications were lost: that too is only "something changed". */
    while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_TRUNC) > 0 || errno == ENOBUFS) {
        errno = 0;
    }
}

struct generation_request {
    struct nlmsghdr head;
    struct nfgenmsg body;
};

/* Finds NFTA_GEN_ID in one message. */
static int generation_parse(const char *bytes, size_t len, uint32_t *ret_generation)
{
    struct nlmsghdr head;
    size_t at = sizeof(struct nlmsghdr) + sizeof(struct nfgenmsg);
    if (len < sizeof(head)) {
        return -1;
    }
    memcpy(&head, bytes, sizeof(head));
    if (head.nlmsg_len > len || head.nlmsg_type != (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWGEN)) {
        return -1;
    }
    while (at + sizeof(struct nlattr) <= head.nlmsg_len) {
        struct nlattr attribute;
        uint32_t value = 0;
        memcpy(&attribute, bytes + at, sizeof(attribute));
        if (attribute.nla_len < sizeof(attribute) || at + attribute.nla_len > head.nlmsg_len) {
            return -1;
        }
        if ((attribute.nla_type & NLA_TYPE_MASK) == NFTA_GEN_ID &&
            attribute.nla_len == sizeof(attribute) + sizeof(value)) {
            memcpy(&value, bytes + at + sizeof(attribute), sizeof(value));
            *ret_generation = ntohl(value);
            return 0;
        }
        at += NLA_ALIGN(attribute.nla_len);
    }
    return -1;
}

int netlink_generation(uint32_t *ret_generation, struct err *e)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    struct timeval timeout = {.tv_sec = ANSWER_TIMEOUT_S};
    struct generation_request request = {
        .head = {.nlmsg_len = sizeof(request),
                 .nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN,
                 .nlmsg_flags = NLM_F_REQUEST},
        .body = {.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0}};
    char answer[ANSWER_BYTES];
    int fd AUTOCLOSE = -1;
    if (netlink_open(0, &fd, e) < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    if (sendto(fd, &request, sizeof(request), 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0) {
        return err_set(e, ERR_IO, errno, "walls: ask for the generation of nftables");
    }
    ssize_t n = recv(fd, answer, sizeof(answer), 0);
    if (n <= 0 || generation_parse(answer, (size_t)n, ret_generation) < 0) {
        return err_set(e, ERR_IO, n < 0 ? errno : 0, "walls: the generation of nftables");
    }
    return 0;
}
