/*
 * Fuzz target: records as a hostile peer sends them. Everything that parses is read in every way
 * the programs read it. One thread.
 */
#include "lib/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const struct record *r)
{
    size_t pos = 0;
    size_t total = 0;
    struct str key;
    struct str value;
    uint64_t u = 0;
    int64_t i = 0;
    struct err e;
    while (record_each(r, &pos, &key, &value)) {
        total += key.len + value.len + 5;
        (void)str_to_i64(value, INT64_MIN, INT64_MAX, &i);
    }
    if (total != r->fields.len) {
        __builtin_trap(); /* a parsed record has no unread rest */
    }
    (void)record_get_u64(r, "port", 65535, &u);
    (void)record_get_i64(r, "pid", &i);
    (void)record_get_bool(r, "open", true);
    (void)record_to_err(r, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    BUF_AUTO(in, (size_t)4 * RECORD_FRAME_MAX);
    struct str frame;
    struct record r;
    struct err e;
    if (record_parse(str_n(data, size), &r, &e) == 0) {
        read_all(&r);
    }
    buf_add(&in, data, size);
    while (record_next(&in, &frame, &e) == 1) {
        if (record_parse(frame, &r, &e) == 0) {
            read_all(&r);
        }
        record_skip(&in, frame);
    }
    return 0;
}
