/*
 * Fuzzes the HTTP parser of both directions as the relay uses it: what it gives is the same however
 * the bytes are cut, and never two lengths for one message. One thread.
 */
#include <stdint.h>
#include <stdlib.h>

#include "proxy/http_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MESSAGES_MAX 16

struct seen {
    struct http_parser parser;
    struct head head;
    size_t body_bytes;
    unsigned messages;
};

static bool on_head(void *ctx)
{
    const struct seen *s = ctx;

    if (s->parser.framing == HTTP_CHUNKED && head_count(&s->head, "content-length") > 0) {
        abort();
    }
    return false;
}

static void on_body(void *ctx, struct str bytes)
{
    struct seen *s = ctx;

    s->body_bytes += bytes.len;
}

static void on_end(void *ctx)
{
    struct seen *s = ctx;

    s->messages++;
}

static void copy_all(struct head *h)
{
    BUF_AUTO(out, 1 << 20);
    head_copy(h, &out, NULL, NULL);
    head_copy_trailers(h, &out);
}

static void feed(struct seen *s, struct str text, size_t step)
{
    while (text.len > 0 && s->parser.problem == HTTP_FINE && s->messages < MESSAGES_MAX) {
        size_t taken = http_parser_feed(&s->parser, str_cut(text, 0, step));

        if (taken > step ||
            (taken == 0 && !s->parser.message_whole && s->parser.problem == HTTP_FINE)) {
            abort();
        }
        text = str_cut(text, taken, text.len);
        if (!s->parser.message_whole) {
            continue;
        }
        copy_all(&s->head);
        if (!http_parser_keeps_alive(&s->parser)) {
            return;
        }
        head_done(&s->head);
        head_init(&s->head);
        http_parser_next(&s->parser, &s->head);
    }
    (void)http_parser_finish(&s->parser);
}

static void run(struct seen *s, struct str text, bool is_request, size_t step)
{
    static const struct http_events events = {.head = on_head, .body = on_body, .end = on_end};

    *s = (struct seen){0};
    head_init(&s->head);
    http_parser_init(&s->parser, is_request, &events, s);
    http_parser_next(&s->parser, &s->head);
    feed(s, text, step);
    head_done(&s->head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct seen whole;
    static struct seen parts;

    if (size < 2) {
        return 0;
    }
    struct str text = str_n(data + 2, size - 2);
    bool is_request = data[0] & 1;

    run(&whole, text, is_request, text.len > 0 ? text.len : 1);
    run(&parts, text, is_request, data[1] % 32U + 1);
    if (whole.parser.problem == HTTP_FINE && parts.parser.problem == HTTP_FINE &&
        (whole.messages != parts.messages || whole.body_bytes != parts.body_bytes)) {
        abort();
    }
    return 0;
}
