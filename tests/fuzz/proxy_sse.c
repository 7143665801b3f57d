/*
 * Fuzzes the answers of models: however the bytes are cut, end and spend are the same.
 * One thread.
 */
#include <stdint.h>
#include <stdlib.h>

#include "proxy/model_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_same_spend(struct model_spend a, struct model_spend b)
{
    return a.input == b.input && a.output == b.output && a.cached_read == b.cached_read &&
           a.cached_write == b.cached_write && a.cost_microusd == b.cost_microusd &&
           a.has_input == b.has_input && a.has_output == b.has_output && a.has_cost == b.has_cost;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text;

    if (size < 2) {
        return 0;
    }
    struct model_answer whole = {
        .format = (enum model_format)(data[0] % 5), .is_sse = data[0] < 128, .cost = "usage.cost"};
    struct model_answer parts = whole;
    size_t step = data[1] % 16U + 1;

    text = str_n(data + 2, size - 2);
    model_answer_feed(&whole, text);
    for (size_t at = 0; at < text.len; at += step) {
        model_answer_feed(&parts, str_cut(text, at, at + step));
    }
    if (model_answer_is_whole(&whole) != model_answer_is_whole(&parts) ||
        !is_same_spend(model_answer_spend(&whole), model_answer_spend(&parts)) ||
        whole.text_bytes != parts.text_bytes) {
        abort();
    }
    return 0;
}
