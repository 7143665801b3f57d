/*
 * Fuzzes the finish markers of model streams: however the bytes are cut, the verdict is the same.
 * One thread.
 */
#include <stdint.h>
#include <stdlib.h>

#include "proxy/sse_finish.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text;

    if (size < 2) {
        return 0;
    }
    struct sse_finish whole = {.kind = (enum sse_kind)(data[0] % 5)};
    struct sse_finish parts = whole;
    size_t step = data[1] % 16U + 1;

    text = str_n(data + 2, size - 2);
    sse_finish_feed(&whole, text);
    for (size_t at = 0; at < text.len; at += step) {
        sse_finish_feed(&parts, str_cut(text, at, at + step));
    }
    if (sse_finish_is_whole(&whole) != sse_finish_is_whole(&parts)) {
        abort();
    }
    return 0;
}
