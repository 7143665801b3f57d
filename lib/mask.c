/*
 * Masking: one automaton (Aho and Corasick's) of all values, so that a text costs the same however
 * many values there are and whatever it is made of. It must never let a byte of a value out before
 * it is known not to be one. Any thread.
 */
#include "lib/mask.h"

#include <string.h>

#define MASK_PATTERNS_BYTES_MAX (1U << 20) /* more than all values of an app */
#define MASK_HELD_BYTES_MAX     (4UL * MASK_VALUE_BYTES)
#define MASK_ROOT               0

/* Children of a node are a list: few have more than one. */
struct mask_node {
    uint32_t child;
    uint32_t next;
    uint32_t fail;  /* the longest proper suffix that begins a value too */
    uint16_t depth; /* so many bytes may be the beginning of a value */
    uint16_t match; /* the longest value that ends here, 0: none */
    uint8_t byte;
};

struct mask {
    uint32_t count;
    uint32_t room;
    struct mask_node *nodes; /* owned */
    uint32_t first[256];     /* children of the root: most bytes of most text ask for these */
};

_Static_assert(MASK_VALUE_BYTES <= UINT16_MAX, "a depth fits");

/* ---- which parts of a value ---- */

typedef void (*mask_part_fn)(void *ctx, struct str part);

static bool mask_is_long(struct str part)
{
    return part.len >= MASK_MIN_BYTES;
}

/* Its lines; and the whole of it, when one of them alone would be too short. */
static void mask_parts(struct str value, mask_part_fn fn, void *ctx)
{
    struct str whole = str_cut(str_trim(value), 0, MASK_VALUE_BYTES);
    struct str rest = whole;
    struct str line;
    bool has_short = false;

    while (str_split(&rest, '\n', &line)) {
        line = str_trim(line);
        if (mask_is_long(line)) {
            fn(ctx, line);
        } else {
            has_short |= line.len > 0;
        }
    }
    if (has_short && mask_is_long(whole)) {
        fn(ctx, whole);
    }
}

static void mask_count_part(void *ctx, struct str part)
{
    size_t *bytes = ctx;

    *bytes += part.len;
}

bool mask_covers(struct str value)
{
    size_t bytes = 0;

    mask_parts(value, mask_count_part, &bytes);
    return bytes > 0;
}

/* ---- making ---- */

static uint32_t mask_child(const struct mask *m, uint32_t at, uint8_t byte)
{
    uint32_t child = at == MASK_ROOT ? m->first[byte] : m->nodes[at].child;

    while (child != MASK_ROOT && m->nodes[child].byte != byte) {
        child = m->nodes[child].next;
    }
    return child;
}

static uint32_t mask_grow(struct mask *m, uint32_t at, uint8_t byte)
{
    uint32_t child = m->count++;

    m->nodes[child] = (struct mask_node){
        .byte = byte, .next = m->nodes[at].child, .depth = (uint16_t)(m->nodes[at].depth + 1)};
    m->nodes[at].child = child;
    if (at == MASK_ROOT) {
        m->first[byte] = child;
    }
    return child;
}

static void mask_add_part(void *ctx, struct str part)
{
    struct mask *m = ctx;
    uint32_t at = MASK_ROOT;

    if (part.len > m->room - m->count) {
        return; /* cannot be: the room was counted by the same parts */
    }
    for (size_t i = 0; i < part.len; i++) {
        uint32_t child = mask_child(m, at, (uint8_t)part.ptr[i]);

        at = child != MASK_ROOT ? child : mask_grow(m, at, (uint8_t)part.ptr[i]);
    }
    m->nodes[at].match = m->nodes[at].depth;
}

static uint32_t mask_step(const struct mask *m, uint32_t at, uint8_t byte)
{
    uint32_t child = mask_child(m, at, byte);

    while (child == MASK_ROOT && at != MASK_ROOT) {
        at = m->nodes[at].fail;
        child = mask_child(m, at, byte);
    }
    return child;
}

/* Breadth first: the suffixes of a node are shorter than it, so theirs are known. */
static void mask_link(struct mask *m, uint32_t *order)
{
    size_t done = 0;
    size_t known = 0;

    order[known++] = MASK_ROOT;
    while (done < known) {
        uint32_t at = order[done++];

        for (uint32_t c = m->nodes[at].child; c != MASK_ROOT; c = m->nodes[c].next) {
            struct mask_node *node = &m->nodes[c];

            node->fail = at == MASK_ROOT ? MASK_ROOT : mask_step(m, m->nodes[at].fail, node->byte);
            if (node->match == 0) {
                node->match = m->nodes[node->fail].match;
            }
            order[known++] = c;
        }
    }
}

struct mask *mask_new(const struct str *values, size_t count)
{
    size_t bytes = 0;
    struct mask *m = NULL;
    uint32_t *order AUTOFREE = NULL;

    for (size_t i = 0; i < count; i++) {
        mask_parts(values[i], mask_count_part, &bytes);
    }
    if (bytes == 0 || bytes > MASK_PATTERNS_BYTES_MAX) {
        return NULL;
    }
    m = mem_alloc(sizeof(*m));
    m->room = (uint32_t)bytes + 1;
    m->nodes = mem_calloc(m->room, sizeof(*m->nodes));
    m->count = 1;
    for (size_t i = 0; i < count; i++) {
        mask_parts(values[i], mask_add_part, m);
    }
    order = mem_calloc(m->count, sizeof(*order));
    mask_link(m, order);
    return m;
}

void mask_free(struct mask *take_mask)
{
    if (take_mask) {
        mem_wipe(take_mask->nodes, take_mask->room * sizeof(*take_mask->nodes));
        free(take_mask->nodes);
        free(take_mask);
    }
}

/* ---- streams ---- */

void mask_stream_init(struct mask_stream *s)
{
    *s = (struct mask_stream){.state = MASK_ROOT};
    buf_init(&s->held, MASK_HELD_BYTES_MAX);
    buf_init(&s->marks, MASK_HELD_BYTES_MAX);
}

void mask_stream_done(struct mask_stream *s)
{
    buf_wipe(&s->held);
    buf_done(&s->marks);
    s->state = MASK_ROOT;
    s->in_value = false;
}

/* One byte that is sure goes out. */
static void stream_put(struct mask_stream *s, bool is_value, char byte, struct buf *out)
{
    if (!is_value) {
        buf_putc(out, byte);
    } else if (s->keeps_length) {
        buf_putc(out, '*');
    } else if (!s->in_value) {
        buf_puts(out, MASK_TEXT);
    }
    s->in_value = is_value;
}

/* Lets out all but the last `keep` bytes. */
static void stream_release(struct mask_stream *s, size_t keep, struct buf *out)
{
    size_t sure = s->held.len > keep ? s->held.len - keep : 0;

    for (size_t i = 0; i < sure; i++) {
        stream_put(s, s->marks.ptr[i] != 0, s->held.ptr[i], out);
    }
    buf_consume(&s->held, sure);
    buf_consume(&s->marks, sure);
}

/* One step of the automaton for the byte that ends at `end` of what is held. */
static void stream_step(struct mask_stream *s, const struct mask *m, size_t end)
{
    s->state = mask_step(m, s->state, (uint8_t)s->held.ptr[end - 1]);
    size_t match = m->nodes[s->state].match;
    if (match > 0) {
        memset(s->marks.ptr + end - match, 1, match);
    }
}

/* Up to where no value can go on, at most so much as fits beside what is held already; returns the
 * bytes taken. */
static size_t stream_piece(struct mask_stream *s, const struct mask *m, struct str piece,
                           struct buf *out)
{
    size_t taken = 0;

    do {
        if (!buf_reserve(&s->held, 1) || !buf_reserve(&s->marks, 1)) {
            /* No memory: rather nothing than a value. */
            buf_reset(&s->held);
            buf_reset(&s->marks);
            s->state = MASK_ROOT;
            return piece.len;
        }
        buf_putc(&s->held, piece.ptr[taken++]);
        buf_putc(&s->marks, 0);
        stream_step(s, m, s->held.len);
    } while (taken < piece.len && s->state != MASK_ROOT);
    stream_release(s, m->nodes[s->state].depth, out);
    return taken;
}

/* The bytes at the front that begin no value: most text is that. */
static size_t mask_plain(const struct mask *m, struct str text)
{
    size_t len = 0;

    while (len < text.len && mask_child(m, MASK_ROOT, (uint8_t)text.ptr[len]) == MASK_ROOT) {
        len++;
    }
    return len;
}

void mask_stream_end(struct mask_stream *s, struct buf *out)
{
    stream_release(s, 0, out);
    s->state = MASK_ROOT;
    s->in_value = false;
}

void mask_stream_feed(struct mask_stream *s, const struct mask *m, struct str bytes,
                      struct buf *out)
{
    if (!m) {
        mask_stream_end(s, out);
        buf_add_str(out, bytes);
        return;
    }
    while (bytes.len > 0) {
        size_t plain = s->held.len == 0 ? mask_plain(m, bytes) : 0;

        if (plain > 0) {
            buf_add(out, bytes.ptr, plain);
            s->in_value = false;
            bytes = str_cut(bytes, plain, bytes.len);
        }
        if (bytes.len > 0) {
            size_t taken = stream_piece(s, m, str_cut(bytes, 0, MASK_VALUE_BYTES), out);
            bytes = str_cut(bytes, taken, bytes.len);
        }
    }
}

void mask_stream_switch(struct mask_stream *s, const struct mask *next)
{
    s->state = MASK_ROOT;
    for (size_t end = 1; next && end <= s->held.len; end++) {
        s->state = mask_step(next, s->state, (uint8_t)s->held.ptr[end - 1]);
        size_t match = next->nodes[s->state].match;
        if (match > 0) {
            memset(s->marks.ptr + end - match, 1, match);
        }
    }
}

void mask_text(const struct mask *m, struct str text, struct buf *out)
{
    struct mask_stream s;

    mask_stream_init(&s);
    mask_stream_feed(&s, m, text, out);
    mask_stream_end(&s, out);
    mask_stream_done(&s);
}
