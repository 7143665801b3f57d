/*
 * The engine's socket: one thread per connection, at most 64.
 */
#pragma once

#include "engine/engine.h"
#include "lib/err.h"

#define SERVER_CONNECTIONS_MAX 64

/* Listens at run/engine/engine.sock (0600) and serves until stop_fd becomes readable, then ends
 * every connection and waits for their threads. ERR_IO cannot listen. Blocks. */
int server_run(struct engine *g, int stop_fd, struct err *e) MUST_CHECK;

/* Serves one connection to its end; for tests. fd is borrowed. */
void server_serve(struct engine *g, int fd, int stop_fd);
