/*
 * The commit this program was built from. Constant.
 */
#include "lib/version.h"

#ifndef SANDBOXD_VERSION
#    define SANDBOXD_VERSION "unknown"
#endif

const char *version_text(void)
{
    return SANDBOXD_VERSION;
}
