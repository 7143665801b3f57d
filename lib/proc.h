/*
 * Spawning and waiting: the only place of our daemons (not of PID 1) that starts a process.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "lib/buf.h"
#include "lib/err.h"

struct proc_options {
    const char *path;        /* absolute */
    const char *const *argv; /* ended by NULL */
    const char *const *envp; /* ended by NULL; exactly this */
    const char *cwd;         /* or NULL */
    struct str input;        /* written to stdin, then closed */
    int64_t timeout_ms;      /* TERM at it, KILL 2 s later */
    size_t output_max;       /* each of stdout and stderr; more is dropped */
};

/* Runs to its end, blocking. *ret_status is the wait status. What is left of its process group is
 * killed at its end. The program ignores SIGPIPE. ERR_IO cannot start, ERR_TIMEOUT (what was
 * written until then is there). Both buffers are made here; the caller frees them with buf_done, on
 * failure too. */
int proc_run(const struct proc_options *options, struct buf *ret_out, struct buf *ret_err_text,
             int *ret_status, struct err *e) MUST_CHECK;

#define PROC_PATH_MAX 512

/* The path of a program of ours in the directory that the running one was started from, also after
 * an upgrade put a new file there. ERR_IO when /proc cannot tell, or the path is too long. */
int proc_beside(char out[PROC_PATH_MAX], const char *program, struct err *e) MUST_CHECK;
