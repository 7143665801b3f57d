/*
 * The two roles, a program each. Main thread.
 */
#pragma once

#include <stdint.h>

/* Each runs until SIGTERM or SIGINT and returns the exit status. */
int preview_serve(const char *data_dir, uint16_t port);
int credentials_serve(const char *data_dir);
