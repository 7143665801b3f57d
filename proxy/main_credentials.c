/*
 * sandboxd-credentials-proxy --data-dir D
 *
 * Main thread.
 */
#include <sys/prctl.h>

#include "proxy/program.h"
#include "proxy/role.h"

/* Keys pass through the memory of this program: nobody of the same uid may look at it. */
static void hide_memory(void)
{
#ifndef __SANITIZE_ADDRESS__ /* its leak check traces the process */
    (void)prctl(PR_SET_DUMPABLE, 0);
#endif
}

int main(int argc, char **argv)
{
    struct program_options o = program_begin(argc, argv, "credentials-proxy", false);

    hide_memory();
    return credentials_serve(o.data_dir);
}
