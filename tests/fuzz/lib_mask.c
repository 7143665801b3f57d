/*
 * Fuzzes masking: no value is left in a text, however it was cut, JSON stays JSON, and a length
 * that was promised is kept. The input: values of a line each, an empty line, then the text. One
 * thread.
 */
#include <stdint.h>
#include <stdlib.h>

#include "lib/json_read.h"
#include "lib/mask.h"

#define FUZZ_VALUES_MAX 16
#define FUZZ_OUT_MAX    (8U << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_json(const struct mask *m, struct str text)
{
    struct err e;
    struct json_doc *before AUTO(json_doc) = NULL;
    struct json_doc *after AUTO(json_doc) = NULL;
    BUF_AUTO(out, FUZZ_OUT_MAX);

    mask_json(m, text, &out);
    /* Two keys may become one, and that is refused. */
    if (json_parse(text, &before, &e) == 0 && json_is_array(json_root(before)) &&
        !str_contains(text, STR("{")) && json_parse(buf_str(&out), &after, &e) != 0) {
        abort();
    }
}

static void check_pieces(const struct mask *m, struct str text, struct str expected)
{
    struct mask_stream s;
    size_t step = 1 + text.len % 7;
    BUF_AUTO(out, FUZZ_OUT_MAX);

    mask_stream_init(&s);
    for (size_t i = 0; i < text.len; i += step) {
        mask_stream_feed(&s, m, str_cut(text, i, i + step), &out);
    }
    mask_stream_end(&s, &out);
    mask_stream_done(&s);
    if (!str_eq(buf_str(&out), expected)) {
        abort();
    }
}

static void check_length(const struct mask *m, struct str text)
{
    struct mask_stream s;
    BUF_AUTO(out, FUZZ_OUT_MAX);

    mask_stream_init(&s);
    s.keeps_length = true;
    mask_stream_feed(&s, m, text, &out);
    mask_stream_end(&s, &out);
    mask_stream_done(&s);
    if (out.len != text.len) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = str_n(data, size);
    struct str values[FUZZ_VALUES_MAX];
    struct str line;
    size_t count = 0;
    BUF_AUTO(out, FUZZ_OUT_MAX);

    while (count < FUZZ_VALUES_MAX && str_split(&rest, '\n', &line) && line.len > 0) {
        values[count++] = line;
    }
    struct mask *m AUTO(mask) = mask_new(values, count);
    mask_text(m, rest.ptr ? rest : STR(""), &out);
    for (size_t i = 0; i < count; i++) {
        struct str value = str_trim(values[i]);

        /* What is left may look like one again only where three asterisks are part of it. */
        if (mask_covers(value) && !str_contains(value, STR("*")) &&
            str_contains(buf_str(&out), value)) {
            abort();
        }
    }
    check_pieces(m, rest.ptr ? rest : STR(""), buf_str(&out));
    check_length(m, rest.ptr ? rest : STR(""));
    check_json(m, rest.ptr ? rest : STR(""));
    return 0;
}
