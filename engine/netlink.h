/*
 * The little of netlink that the walls need: being told that somebody changed nftables. One thread.
 */
#pragma once

#include <stdint.h>

#include "lib/err.h"

/* A socket that becomes readable when any nftables object of this network namespace changes. Needs
 * NET_ADMIN. ERR_IO. */
int netlink_watch_open(int *ret_fd, struct err *e) MUST_CHECK;
/* Throws away what has arrived. Never blocks. */
void netlink_watch_drain(int fd);
/* The generation of the whole ruleset: rises with every change. ERR_IO. */
int netlink_generation(uint32_t *ret_generation, struct err *e) MUST_CHECK;
