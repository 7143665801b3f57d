/*
 * Ports that listen inside a sandbox, from the host's view of its network namespace. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/err.h"
#include "lib/str.h"

/* Does anything listen on that TCP port in the network of that process? ERR_IO, ERR_NOT_FOUND when
 * the process is gone. */
int ports_is_open(pid_t pid, uint16_t port, bool *ret_open, struct err *e) MUST_CHECK;
/* The same over the text of /proc/<pid>/net/tcp or tcp6. Pure; rubbish lines are no match. */
bool ports_table_has(struct str text, uint16_t port);
