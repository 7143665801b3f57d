/*
 * What the answer of a model says of itself: whether it came to its own end (some agents ask for
 * ever when a cut stream looks finished), and what it cost. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/str.h"
#include "proxy/json_scan.h"

enum model_format {
    MODEL_NONE, /* nothing is expected */
    MODEL_CHAT,
    MODEL_MESSAGES,
    MODEL_RESPONSES,
    MODEL_GEMINI
};

/* By the word of the provider's data: "openai-chat", "anthropic-messages", "openai-responses",
 * "google-gemini". */
enum model_format model_format_named(struct str name);
/* By the last part of the path, where the data says nothing. */
enum model_format model_format_of(struct str path);

/* Figures as the provider said them; input is without what was cached. */
struct model_spend {
    uint64_t input, output, cached_read, cached_write, cost_microusd;
    bool has_input, has_output, has_cost;
};

/* Zeroed but for format, is_sse and cost is the start. */
struct model_answer {
    enum model_format format;
    bool is_sse;      /* else one JSON text */
    const char *cost; /* borrowed: path of the member that names the cost in USD; NULL: none */
    bool is_finished;
    bool is_data, is_line_known; /* of the line that is being read */
    unsigned start_len;
    char start[16]; /* the line's first bytes */
    struct json_scan scan;
    uint64_t text_bytes; /* of what the model wrote, as far as it came */
    uint64_t counts[5];  /* the provider's, by kind */
    bool has_input, has_output, has_cost;
    uint64_t cost_microusd;
};

void model_answer_feed(struct model_answer *a, struct str bytes);
/* False when a stream ended without its finish marker (or an error event, which is an end too). */
bool model_answer_is_whole(const struct model_answer *a);
struct model_spend model_answer_spend(const struct model_answer *a);

/* "0.00123", "1.5e-05": in millionths, rounded; false for anything else. */
bool model_micro_parse(struct str text, uint64_t *ret_micro);
