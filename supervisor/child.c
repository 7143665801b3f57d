/*
 * Children of PID 1. It must never start anything that can read another's memory. Runs in a fresh
 * process, one thread.
 */
#include "supervisor/child.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/fd.h"
#include "lib/log.h"
#include "supervisor/relay.h"
#include "supervisor/runner.h"
#include "supervisor/seed.h"

/* Before anything else: when memory ends, the app goes before PID 1. */
static void child_offer_to_oom(void)
{
    int fd AUTOCLOSE = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        /* A kernel or runtime that has no such file has no such choice. */
        ssize_t ignored = write(fd, CHILD_OOM_SCORE_ADJ, strlen(CHILD_OOM_SCORE_ADJ));

        (void)ignored;
    }
}

static bool child_is(const char *mode, const char *wanted, int argc, int least)
{
    return strcmp(mode, wanted) == 0 && argc >= least;
}

int child_main(int argc, char **argv)
{
    const char *mode = argc > 0 ? argv[0] : "";

    child_offer_to_oom();
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (child_is(mode, "relay", argc, 2)) {
        return relay_main(argv[1]);
    }
    if (child_is(mode, "runner", argc, 3)) {
        return runner_main(argv[1], argv + 2);
    }
    if (child_is(mode, "seed", argc, 3)) {
        return seed_main(argv[1], argv[2]);
    }
    (void)fprintf(stderr, "sandboxd-init: no such child: %s\n", mode);
    return 2;
}
