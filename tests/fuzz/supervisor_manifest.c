/*
 * Fuzzes sandbox.yaml and package.json as an app could write them. One thread.
 */
#include "supervisor/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_n(data, size);
    struct manifest m = {0};
    struct err e = {0};

    if (manifest_parse(text, &m, &e) == 0) {
        /* What was taken is usable. */
        if ((!m.web.command && m.worker_count == 0) || m.health_path[0] != '/') {
            __builtin_trap();
        }
        manifest_done(&m);
    } else if (e.code != ERR_INVALID || e.msg[0] == '\0') {
        __builtin_trap();
    }
    (void)manifest_package_has_dev(text);
    return 0;
}
