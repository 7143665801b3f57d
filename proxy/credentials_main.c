/*
 * The credentials role.
 */
#include "proxy/role.h"

int credentials_serve(const char *data_dir)
{
    (void)data_dir;
    return 1;
}
