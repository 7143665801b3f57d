/*
 * sandboxd-preview-proxy --data-dir D --port P
 *
 * Linked without TLS and HTTP clients: nothing of them faces a visitor. Main thread.
 */
#include "proxy/program.h"
#include "proxy/role.h"

int main(int argc, char **argv)
{
    struct program_options o = program_begin(argc, argv, "preview-proxy", true);

    return preview_serve(o.data_dir, o.port);
}
