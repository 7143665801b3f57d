/*
 * Progress of an image build or pull. Called by whoever reads the stream.
 */
#include "engine/progress.h"

#include <stdio.h>
#include <string.h>

#include "lib/json_read.h"

void progress_init(struct progress *p)
{
    *p = (struct progress){0};
    buf_init(&p->line, PROGRESS_LINE_BYTES_MAX);
}

void progress_done(struct progress *p)
{
    buf_done(&p->line);
}

/* Keeps the last bytes; cut at the front. */
static void tail_add(struct progress *p, struct str text)
{
    if (text.len > sizeof(p->tail)) {
        text = str_cut(text, text.len - sizeof(p->tail), text.len);
    }
    size_t over =
        p->tail_len + text.len > sizeof(p->tail) ? p->tail_len + text.len - sizeof(p->tail) : 0;
    memmove(p->tail, p->tail + over, p->tail_len - over);
    p->tail_len -= over;
    memcpy(p->tail + p->tail_len, text.ptr, text.len);
    p->tail_len += text.len;
}

struct str progress_tail(const struct progress *p)
{
    return str_trim(str_n(p->tail, p->tail_len));
}

/* Colours and the engine's own remarks are left out: the rest is for people. */
static void tail_add_plain(struct progress *p, struct str text)
{
    struct str escape = STR("\x1b[");
    if (str_starts(text, STR(" ---> ")) || str_starts(text, STR("Removing intermediate"))) {
        return;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (!str_starts(str_cut(text, i, text.len), escape)) {
            tail_add(p, str_cut(text, i, i + 1));
            continue;
        }
        for (i += escape.len; i < text.len && (text.ptr[i] < '@' || text.ptr[i] > '~'); i++) {
        }
    }
}

/* "Step 3/12 : RUN …" → 16 percent and the text. */
static bool step_parse(struct progress *p, struct str text)
{
    uint64_t number = 0;
    uint64_t total = 0;
    struct str prefix = STR("Step ");
    ptrdiff_t slash = str_find(text, '/');
    ptrdiff_t colon = str_find(text, ':');
    if (!str_starts(text, prefix) || slash < 0 || colon < slash ||
        !str_to_u64(str_cut(text, prefix.len, (size_t)slash), 10000, &number) ||
        !str_to_u64(str_trim(str_cut(text, (size_t)slash + 1, (size_t)colon)), 10000, &total) ||
        number == 0 || number > total) {
        return false;
    }
    p->percent = (int)((number - 1) * 100 / total);
    struct str what = str_trim(str_cut(text, (size_t)colon + 1, text.len));
    (void)snprintf(p->step, sizeof(p->step), "%llu/%llu %.*s", (unsigned long long)number,
                   (unsigned long long)total, STR_FMT(what));
    return true;
}

static void line_parse(struct progress *p, struct str line)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    if (str_empty(line) || json_parse(line, &doc, NULL) < 0) {
        return;
    }
    const struct json_value *v = json_root(doc);
    struct str error = json_get_str(v, "error");
    struct str message = json_get_str(v, "message");
    struct str stream = json_get_str(v, "stream");
    struct str status = json_get_str(v, "status");
    if (error.ptr || message.ptr) {
        (void)snprintf(p->error, sizeof(p->error), "%.*s", STR_FMT(error.ptr ? error : message));
    } else if (stream.ptr) {
        if (!step_parse(p, str_trim(stream))) {
            tail_add_plain(p, stream);
        }
    } else if (status.ptr) {
        (void)snprintf(p->step, sizeof(p->step), "%.*s", STR_FMT(status));
    }
}

void progress_feed(struct progress *p, struct str bytes)
{
    struct str part;
    while (!str_empty(bytes)) {
        ptrdiff_t end = str_find(bytes, '\n');
        part = end < 0 ? bytes : str_cut(bytes, 0, (size_t)end);
        buf_add_str(&p->line, part);
        if (end < 0) {
            return;
        }
        if (buf_ok(&p->line)) {
            line_parse(p, str_trim(buf_str(&p->line)));
        }
        buf_reset(&p->line);
        bytes = str_cut(bytes, (size_t)end + 1, bytes.len);
    }
}
