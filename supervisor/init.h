/*
 * PID 1 of a sandbox: the loop that owns everything else. One thread.
 */
#pragma once

/* Runs until it was told to stop, then ends everything and returns the exit status. */
int init_main(const char *argv0, char **env);
