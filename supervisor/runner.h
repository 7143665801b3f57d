/*
 * Runner: a process of its own above one program. It is a child subreaper, so that whatever the
 * program starts stays below it, and it ends all of that when it is told to or when the program has
 * ended.
 *
 * Messages on its control descriptor (SOCK_SEQPACKET, one struct each).
 */
#pragma once

#include <stdint.h>

#define RUNNER_CONTROL_FD 3
#define RUNNER_LEFTOVER_GRACE_MS                                                        \
    2000                     /* for what a program leaves behind when it ends by itself \
                              */
#define RUNNER_STUCK_MS 5000 /* after the first KILL */

enum runner_verb {
    RUNNER_STOP = 1,    /* to it: TERM now, KILL after value ms */
    RUNNER_STARTED = 2, /* from it: value is the program's pid */
    RUNNER_EXITED = 3,  /* value is its wait status; the tree may live on for a moment */
    RUNNER_STUCK = 4,   /* something below it survived KILL; it goes on trying */
    RUNNER_GONE = 5,    /* nothing is left below it */
    RUNNER_LOOSE =
        6, /* this kernel has no child subreaper: orphans fall to PID 1, which must end them */
};

struct runner_message {
    uint32_t verb;
    uint32_t value;
};

/* The whole process: argv is the program's own, cwd "" stays. Returns its exit status. Blocks. */
int runner_main(const char *cwd, char *const *argv);
