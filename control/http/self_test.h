/*
 * The server's request to itself at start: proves that both interposed symbols are in force.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/err.h"

/* Every request reports here what it saw; cheap. */
void self_test_note(int fd, unsigned long stack_bytes);
/* One GET /healthz over loopback. ERR_INTERNAL when a symbol is not ours. Blocks for milliseconds.
 */
int self_test_run(uint16_t port, struct err *e) MUST_CHECK;
/* True when something accepts connections there. */
bool self_test_port_answers(uint16_t port);
