/*
 * Fuzzes what a visitor names inside /.sandboxd/enter: no path that is taken may lead a browser to
 * another host or end a header line. One thread.
 */
#include <stdint.h>
#include <stdlib.h>

#include "lib/url_path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_local(struct str path)
{
    if (path.ptr[0] != '/' || (path.len > 1 && path.ptr[1] == '/')) {
        abort();
    }
    for (size_t i = 0; i < path.len; i++) {
        unsigned char c = (unsigned char)path.ptr[i];

        if (c < 0x21 || c > 0x7e || c == '\\') {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str value;

    BUF_AUTO(path, 2048);
    BUF_AUTO(escaped, 8192);
    BUF_AUTO(again, 2048);

    if (!url_path_parameter(str_n(data, size), STR("to"), &value) ||
        !url_path_unescape(value, &path) || !url_path_is_local(buf_str(&path))) {
        return 0;
    }
    check_local(buf_str(&path));
    url_path_escape(buf_str(&path), &escaped);
    if (!url_path_unescape(buf_str(&escaped), &again) || !str_eq(buf_str(&again), buf_str(&path))) {
        abort();
    }
    return 0;
}
