/*
 * Relay: carries the door's streams. A process of its own beside PID 1, so that load, a bug or
 * somebody's kill costs a few connections and never the supervisor. docs/protocols.md, sections 6
 * and 7.
 */
#pragma once

#define RELAY_IN_SOCKET       "/run/sandboxd/in/in.sock"
#define RELAY_OUT_SOCKET      "/run/sandboxd/out/out.sock"
#define RELAY_IN_STREAMS_MAX  1024
#define RELAY_OUT_STREAMS_MAX 256

/* The whole process; never returns while it can work. Blocks in its loop. */
int relay_main(const char *boot_id);
