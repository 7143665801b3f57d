/*
 * Children of PID 1: `sandboxd-init child MODE …`, the second half of every start.
 *
 * A forked child of a process that is not dumpable cannot write its own files in /proc; after an
 * exec it can. So PID 1 execs itself, the child says how soon the kernel may kill it, hides itself
 * again where its memory is nobody's business, and goes on as what MODE says.
 */
#pragma once

#define CHILD_OOM_SCORE_ADJ "500"

/* argv begins behind "child". Modes: relay BOOT_ID · runner CWD ARGV… · seed TEMPLATE BOOT_ID.
 * Returns an exit status. */
int child_main(int argc, char **argv);
