/*
 * Output: the ring of a process, the lines of a task, the outbox that keeps them.
 */
#include "supervisor/lines.h"
#include "supervisor/outbox.h"
#include "supervisor/ring.h"
#include "tests/unit/supervisor/test.h"

/* ---- ring ---- */

static void assert_tail(const struct ring *r, size_t max, const char *expected)
{
    BUF_AUTO(tail, RING_BYTES);

    ring_tail(r, max, &tail);
    assert_string_equal(tail.ptr, expected);
}

static void a_tail_begins_at_a_line(void **state)
{
    struct ring r = {0};

    (void)state;
    assert_tail(&r, 100, "");
    ring_add(&r, STR("one\ntwo\nthree\nfo"));
    assert_tail(&r, 100, "one\ntwo\nthree\nfo");
    assert_tail(&r, 16, "one\ntwo\nthree\nfo");
    assert_tail(&r, 14, "two\nthree\nfo");
    assert_tail(&r, 12, "two\nthree\nfo");
    assert_tail(&r, 4, "fo");
    assert_tail(&r, 2, "fo");
    assert_tail(&r, 1, "o"); /* a line longer than max: its end */
    ring_clear(&r);
    assert_tail(&r, 100, "");
    ring_done(&r);
}

static void a_full_ring_drops_its_oldest(void **state)
{
    struct ring r = {0};
    BUF_AUTO(all, 1 << 20);
    BUF_AUTO(tail, RING_BYTES);

    (void)state;
    for (int i = 0; i < 20000; i++) {
        BUF_AUTO(line, 32);

        buf_printf(&line, "line %d\n", i);
        buf_add_str(&all, buf_str(&line));
        ring_add(&r, buf_str(&line));
    }
    assert_int_equal(r.len, RING_BYTES);
    ring_tail(&r, RING_BYTES, &tail);
    assert_memory_equal(tail.ptr, all.ptr + all.len - RING_BYTES, RING_BYTES);
    buf_reset(&tail);
    ring_add(&r, buf_str(&all)); /* more than fits at once */
    ring_tail(&r, RING_BYTES, &tail);
    assert_memory_equal(tail.ptr, all.ptr + all.len - RING_BYTES, RING_BYTES);
    ring_done(&r);
}

/* ---- lines ---- */

struct seen {
    struct buf text;
    int count;
};

/* Lines end in |, parts in +. */
static void see(void *ctx, struct str line, bool part)
{
    struct seen *seen = ctx;

    buf_add_str(&seen->text, line);
    buf_putc(&seen->text, part ? '+' : '|');
    seen->count++;
}

static void lines_come_whole_however_they_are_cut(void **state)
{
    static const char text[] = "one\n\ntwo\r\nlast without end";

    (void)state;
    for (size_t step = 1; step < sizeof(text); step++) {
        struct lines l;
        struct seen seen = {0};

        lines_init(&l);
        buf_init(&seen.text, 1000);
        for (size_t at = 0; at < sizeof(text) - 1; at += step) {
            lines_feed(&l, str_cut(str_of(text), at, at + step), see, &seen);
        }
        lines_end(&l, see, &seen);
        lines_end(&l, see, &seen); /* nothing is left */
        assert_string_equal(seen.text.ptr, "one||two\r|last without end|");
        lines_done(&l);
        buf_done(&seen.text);
    }
}

static void see_length(void *ctx, struct str line, bool part)
{
    struct seen *seen = ctx;

    buf_printf(&seen->text, "%zu%c", line.len, part ? '+' : '|');
}

static void assert_lengths(size_t len, const char *more, const char *expected)
{
    static char bytes[3 * LINES_PART_MAX];
    struct lines l;
    struct seen seen = {0};

    memset(bytes, 'x', sizeof(bytes));
    lines_init(&l);
    buf_init(&seen.text, 1000);
    lines_feed(&l, str_n(bytes, len), see_length, &seen);
    lines_feed(&l, str_of(more), see_length, &seen);
    lines_end(&l, see_length, &seen);
    assert_string_equal(seen.text.ptr, expected);
    lines_done(&l);
    buf_done(&seen.text);
}

static void long_lines_come_in_parts(void **state)
{
    (void)state;
    assert_lengths(LINES_PART_MAX, "\n", "60000|");
    assert_lengths(LINES_PART_MAX, "", "60000|");
    assert_lengths(LINES_PART_MAX + 1, "\ny\n", "60000+1|1|");
    assert_lengths(2 * LINES_PART_MAX, "\n", "60000+60000|");
    assert_lengths(2 * LINES_PART_MAX + 5, "", "60000+60000+5|");
    assert_lengths(0, "", "");
    assert_lengths(0, "\n\n", "0|0|");
}

/* ---- outbox ---- */

static void add(struct outbox *o, uint64_t seq, size_t size)
{
    static char data[LINES_PART_MAX];
    BUF_AUTO(out, RECORD_FRAME_MAX + 4);
    struct record_writer w = record_begin(&out, "line");

    record_addn(&w, "seq", (int64_t)seq);
    record_add(&w, "data", str_n(data, size));
    assert_true(record_end(&w));
    assert_true(outbox_add(o, buf_str(&out)));
}

/* Numbers of all frames that an emit gives, "1 2 3". */
static void assert_emits(struct outbox *o, size_t until, const char *expected)
{
    BUF_AUTO(out, 1 << 22);
    BUF_AUTO(seqs, 1 << 16);
    struct str frame;

    outbox_emit(o, &out, until);
    while (record_next(&out, &frame, NULL) == 1) {
        struct record r;
        uint64_t seq = 0;

        assert_int_equal(record_parse(frame, &r, NULL), 0);
        assert_true(record_get_u64(&r, "seq", 1 << 30, &seq));
        buf_printf(&seqs, "%s%u", seqs.len ? " " : "", (unsigned)seq);
        record_skip(&out, frame);
    }
    assert_int_equal(out.len, 0);
    assert_string_equal(seqs.ptr, expected);
}

static void what_is_not_acknowledged_comes_again(void **state)
{
    struct outbox o;

    (void)state;
    outbox_init(&o);
    for (uint64_t i = 1; i <= 5; i++) {
        add(&o, i, 10);
    }
    assert_emits(&o, 1 << 20, "1 2 3 4 5");
    assert_emits(&o, 1 << 20, "");
    outbox_ack(&o, 2);
    add(&o, 6, 10);
    assert_emits(&o, 1 << 20, "6");
    outbox_rewind(&o);
    assert_emits(&o, 1, "3");
    assert_emits(&o, 1 << 20, "4 5 6");
    outbox_ack(&o, 1); /* an old one changes nothing */
    outbox_rewind(&o);
    assert_emits(&o, 1 << 20, "3 4 5 6");
    outbox_ack(&o, 100);
    assert_int_equal(outbox_held(&o), 0);
    outbox_rewind(&o);
    assert_emits(&o, 1 << 20, "");
    add(&o, 7, 10);
    assert_emits(&o, 1 << 20, "7");
    outbox_done(&o);
}

static void an_acknowledgement_ahead_of_the_sending_is_taken(void **state)
{
    struct outbox o;

    (void)state;
    outbox_init(&o);
    for (uint64_t i = 1; i <= 4; i++) {
        add(&o, i, 60000); /* each needs room of its own */
    }
    assert_emits(&o, 1, "1");
    outbox_ack(&o, 3);
    assert_emits(&o, 1 << 20, "4");
    outbox_ack(&o, 4);
    assert_null(o.first);
    assert_null(o.last);
    outbox_done(&o);
}

/* The same in the simplest words. */
struct model {
    struct outbox o;
    uint64_t added;
    uint64_t acked;
    uint64_t sent;
};

static void model_ack(struct model *m, unsigned number)
{
    m->acked = m->acked + number > m->added ? m->added : m->acked + number;
    m->sent = m->sent < m->acked ? m->acked : m->sent;
    outbox_ack(&m->o, m->acked);
}

static void model_rewind(struct model *m)
{
    m->sent = m->acked;
    outbox_rewind(&m->o);
}

static void model_emit(struct model *m)
{
    char expected[24] = "";

    if (m->sent < m->added) {
        (void)snprintf(expected, sizeof(expected), "%u", (unsigned)++m->sent);
    }
    assert_emits(&m->o, 1, expected);
}

static void it_agrees_with_a_simple_model(void **state)
{
    struct model m = {0};
    unsigned seed = 12345;

    (void)state;
    outbox_init(&m.o);
    for (int step = 0; step < 20000; step++) {
        seed = seed * 1103515245 + 12345;
        unsigned number = seed >> 19;

        switch (seed >> 16 & 7) {
        case 0:
        case 1:
        case 2: add(&m.o, ++m.added, number % 3000); break;
        case 3: model_ack(&m, number % 4); break;
        case 4: number % 10 == 0 ? model_rewind(&m) : model_emit(&m); break;
        default: model_emit(&m);
        }
    }
    outbox_done(&m.o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tail_begins_at_a_line),
        cmocka_unit_test(a_full_ring_drops_its_oldest),
        cmocka_unit_test(lines_come_whole_however_they_are_cut),
        cmocka_unit_test(long_lines_come_in_parts),
        cmocka_unit_test(what_is_not_acknowledged_comes_again),
        cmocka_unit_test(an_acknowledgement_ahead_of_the_sending_is_taken),
        cmocka_unit_test(it_agrees_with_a_simple_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
