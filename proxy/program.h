/*
 * The start of a program of this room. Main thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Borrowed from argv. */
struct program_options {
    const char *data_dir;
    uint16_t port; /* 0 for a program that does not listen on one */
};

/* Leaves with one line that says why when an argument or setting is wrong. `name` is the program's
 * without "sandboxd-"; `listens` demands --port. */
struct program_options program_begin(int argc, char **argv, const char *name, bool listens);
