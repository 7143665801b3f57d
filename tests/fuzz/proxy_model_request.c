/*
 * Fuzzes the requests to models: however the bytes are cut, model, limit and verdict are the same.
 * One thread.
 */
#include <stdint.h>
#include <stdlib.h>

#include "proxy/model_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model_request whole;
    struct model_request parts;

    if (size < 2) {
        return 0;
    }
    struct str text = str_n(data + 2, size - 2);
    size_t step = data[1] % 16U + 1;

    model_request_begin(&whole, (enum model_format)(data[0] % 5), STR("/models/m:generateContent"));
    model_request_begin(&parts, (enum model_format)(data[0] % 5), STR("/models/m:generateContent"));
    model_request_feed(&whole, text);
    for (size_t at = 0; at < text.len; at += step) {
        model_request_feed(&parts, str_cut(text, at, at + step));
    }
    if (!str_is(str_of(whole.model), parts.model) || whole.problem != parts.problem ||
        model_request_max_tokens(&whole) != model_request_max_tokens(&parts)) {
        abort();
    }
    return 0;
}
