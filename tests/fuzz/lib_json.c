/*
 * Fuzz target: JSON from clients, agents and providers; what parses is walked and its strings are
 * written back. One thread.
 */
#include "lib/json_read.h"
#include "lib/json_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_again(const struct json_value *v, struct buf *out)
{
    struct str text = json_as_str(v);
    struct json_doc *doc = NULL;
    struct err e;
    buf_reset(out);
    json_escape(out, text);
    if (!text.ptr || !buf_ok(out)) {
        return;
    }
    if (json_parse(buf_str(out), &doc, &e) != 0 || !str_eq(json_as_str(json_root(doc)), text)) {
        __builtin_trap(); /* the writer's text is not the reader's */
    }
    json_doc_free(doc);
}

static void walk(const struct json_value *v, struct buf *out)
{
    size_t pos = 0;
    size_t seen = 0;
    struct str key;
    const struct json_value *member = NULL;
    double d = 0;
    int64_t i = 0;
    write_again(v, out);
    (void)json_as_int(v, &i);
    (void)json_as_double(v, &d);
    while (json_each(v, &pos, &key, &member)) {
        seen++;
        walk(member, out); /* at most JSON_DEPTH_MAX deep */
    }
    for (size_t at = 0; json_is_array(v) && at < json_count(v) && at < 1000; at++) {
        walk(json_at(v, at), out);
    }
    if (json_is_object(v) && seen != json_count(v)) {
        __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_doc *doc = NULL;
    struct err e;
    BUF_AUTO(out, (size_t)8 << 20);
    if (json_parse(str_n(data, size), &doc, &e) != 0) {
        return 0;
    }
    walk(json_root(doc), &out);
    json_doc_free(doc);
    return 0;
}
