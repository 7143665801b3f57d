/*
 * sandboxd-init: PID 1 of each sandbox, and under `child` the processes it starts. It must never
 * need anything of the image it runs in. Single-threaded in each of its processes.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/child.h"
#include "supervisor/init.h"
#include "supervisor/spawn.h"

int main(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "child") == 0) {
        return child_main(argc - 2, argv + 2);
    }
    if (argc >= 2 && strcmp(argv[1], "version") == 0) {
        (void)printf("sandboxd-init %s\n", SUPERVISOR_VERSION);
        return 0;
    }
    return init_main(argc > 0 ? argv[0] : NULL, environ);
}
