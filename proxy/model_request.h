/*
 * What a request to a model asks for, read as its body streams by. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/str.h"
#include "proxy/json_scan.h"
#include "proxy/model_answer.h"

#define MODEL_NAME_MAX JSON_SCAN_VALUE_MAX

/* Zeroed but for what model_request_begin sets is the start. */
struct model_request {
    struct json_scan scan;
    char model[MODEL_NAME_MAX + 1]; /* "" while unknown */
    uint64_t max_tokens;            /* for all choices together; 0: not said */
    uint64_t choices;
    bool has_max, has_choices, is_stream;
    const char *problem; /* one sentence: two readers could see two requests; NULL: none */
};

/* Gemini names the model in the path: "/models/<model>:streamGenerateContent". */
void model_request_begin(struct model_request *r, enum model_format format, struct str path);
void model_request_feed(struct model_request *r, struct str bytes);
/* Of the whole request: max_tokens times choices; 0: not said. */
uint64_t model_request_max_tokens(const struct model_request *r);
