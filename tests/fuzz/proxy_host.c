/*
 * Fuzzes the reader of preview host names: what it takes must read back the same. One thread.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "proxy/preview_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct preview_host host;
    struct preview_host again;
    char text[128];

    if (!preview_host_parse(str_n(data, size), STR("example.com"), &host)) {
        return 0;
    }
    (void)snprintf(text, sizeof text, "s-%s-%u.preview.%s", host.id.text, (unsigned)host.port,
                   host.is_localhost ? "localhost" : "example.com");
    if (!preview_host_parse(str_of(text), STR("example.com"), &again) || host.port != again.port ||
        !ulid_eq(&host.id, &again.id) || host.is_localhost != again.is_localhost) {
        abort();
    }
    return 0;
}
