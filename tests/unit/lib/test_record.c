/*
 * Tests of records: round trip, every malformed frame, exchange over sockets with descriptors and
 * deadlines. One thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/record.h"
#include "tests/unit/lib/test.h"

static void make_record(struct buf *out)
{
    struct record_writer w = record_begin(out, "process");
    record_adds(&w, "name", "web");
    record_adds(&w, "absent", NULL);
    record_addn(&w, "pid", 42);
    record_addn(&w, "delta", -7);
    record_addb(&w, "open", true);
    record_addb(&w, "stuck", false);
    record_add(&w, "data", str_n("a\0b\xFF", 4));
    record_adds(&w, "port", "3000");
    record_adds(&w, "port", "3001");
    assert_true(record_end(&w));
}

static struct record parse_first(const struct buf *in)
{
    struct str frame;
    struct record r;
    struct err e;
    assert_int_equal(record_next(in, &frame, &e), 1);
    assert_int_equal(record_parse(frame, &r, &e), 0);
    return r;
}

static void test_round_trip(void **state)
{
    (void)state;
    BUF_AUTO(b, 4096);
    make_record(&b);
    struct record r = parse_first(&b);
    uint64_t u = 0;
    int64_t i = 0;
    assert_true(record_is(&r, "process"));
    assert_false(record_is(&r, "proces"));
    test_str(record_get(&r, "name"), "web");
    assert_null(record_get(&r, "absent").ptr);
    assert_true(record_get_u64(&r, "pid", 100, &u) && u == 42);
    assert_false(record_get_u64(&r, "pid", 41, &u));
    assert_false(record_get_u64(&r, "delta", 100, &u));
    assert_false(record_get_u64(&r, "missing", 100, &u));
    assert_true(record_get_i64(&r, "delta", &i) && i == -7);
    assert_true(record_get_bool(&r, "open", false));
    assert_false(record_get_bool(&r, "stuck", true));
    assert_true(record_get_bool(&r, "missing", true));
    assert_false(record_get_bool(&r, "name", false));
    assert_true(str_eq(record_get(&r, "data"), str_n("a\0b\xFF", 4)));
}

static void test_each(void **state)
{
    (void)state;
    BUF_AUTO(b, 4096);
    make_record(&b);
    struct record r = parse_first(&b);
    size_t pos = 0;
    struct str key;
    struct str value;
    int fields = 0;
    while (record_each(&r, &pos, &key, &value)) {
        fields++;
    }
    assert_int_equal(fields, 8);
    pos = 0;
    assert_true(record_each_of(&r, &pos, "port", &value));
    test_str(value, "3000");
    assert_true(record_each_of(&r, &pos, "port", &value));
    test_str(value, "3001");
    assert_false(record_each_of(&r, &pos, "port", &value));
}

static void test_several_in_one_buffer(void **state)
{
    (void)state;
    BUF_AUTO(b, 4096);
    make_record(&b);
    struct record_writer w = record_begin(&b, "end");
    assert_true(record_end(&w));
    struct str frame;
    struct err e;
    assert_int_equal(record_next(&b, &frame, &e), 1);
    record_skip(&b, frame);
    struct record r = parse_first(&b);
    assert_true(record_is(&r, "end"));
    assert_int_equal(record_next(&b, &frame, &e), 1);
    record_skip(&b, frame);
    assert_int_equal(b.len, 0);
    assert_int_equal(record_next(&b, &frame, &e), 0);
}

static void test_builder_bounds(void **state)
{
    (void)state;
    static char big[RECORD_FRAME_MAX + 1];
    BUF_AUTO(b, 200000);
    make_record(&b);
    size_t before = b.len;
    struct record_writer w = record_begin(&b, "line");
    record_add(&w, "data", str_n(big, RECORD_FRAME_MAX));
    assert_false(record_end(&w));
    assert_int_equal(b.len, before);
    assert_true(buf_ok(&b));
    w = record_begin(&b, "line");
    record_add(&w, "data", str_n(big, sizeof(big)));
    assert_false(record_end(&w));
    w = record_begin(&b, "line");
    record_adds(&w, "", "x");
    assert_false(record_end(&w));
    assert_int_equal(b.len, before);
    /* Exactly the largest frame: kind 1+4+4+4, key 1+4+4. */
    w = record_begin(&b, "line");
    record_add(&w, "data", str_n(big, RECORD_FRAME_MAX - 13 - 9));
    assert_true(record_end(&w));
    assert_int_equal(b.len, before + 4 + RECORD_FRAME_MAX);

    BUF_AUTO(small, 10);
    w = record_begin(&small, "too long for it");
    assert_false(record_end(&w));
    assert_true(buf_ok(&small));
    buf_puts(&small, "0123456789");
    buf_putc(&small, '!');
    w = record_begin(&small, "k");
    assert_false(record_end(&w));
    /* What had failed before stays failed. */
    assert_false(buf_ok(&small));
}

static void refuse(const char *bytes, size_t len)
{
    struct record r;
    struct err e = {0};
    assert_int_equal(record_parse(str_n(bytes, len), &r, &e), -1);
    assert_int_equal(e.code, ERR_PROTOCOL);
}

static void test_malformed_frames(void **state)
{
    (void)state;
#define KIND         "\4kind\0\0\0\1k"
#define REFUSE(text) refuse(text, sizeof(text) - 1)
    struct record r;
    struct err e;
    assert_int_equal(record_parse(STR(KIND), &r, &e), 0);
    REFUSE("");
    REFUSE("\4kind\0\0\0\0");
    REFUSE("\4kin");
    REFUSE("\4kind\0\0\0\2k");
    REFUSE("\4kinD\0\0\0\1k");
    REFUSE("\4kine\0\0\0\1k");
    REFUSE(KIND "\0\0\0\0\0");
    REFUSE(KIND "\1a\0\0\0");
    REFUSE(KIND "\1a\xFF\xFF\xFF\xFF");
    REFUSE(KIND "\1A\0\0\0\0");
    REFUSE(KIND "\1 \0\0\0\0");
    REFUSE(KIND "\xFF");
    REFUSE(KIND "\1a\0\0\0\0x");
    char long_key[sizeof(KIND) - 1 + 1 + 65 + 4] = KIND "\x41";
    memset(long_key + sizeof(KIND), 'a', 65);
    refuse(long_key, sizeof(long_key));
}

static void test_bad_lengths(void **state)
{
    (void)state;
    BUF_AUTO(b, 100);
    struct str frame;
    struct err e;
    buf_add(&b, "\0\0\0\0", 4);
    assert_int_equal(record_next(&b, &frame, &e), -1);
    buf_reset(&b);
    buf_add(&b, "\0\1\0\1", 4);
    assert_int_equal(record_next(&b, &frame, &e), -1);
    assert_int_equal(e.code, ERR_PROTOCOL);
    buf_reset(&b);
    buf_add(&b, "\0\1\0\0", 4);
    assert_int_equal(record_next(&b, &frame, &e), 0);
    buf_reset(&b);
    buf_add(&b, "\0\0\0", 3);
    assert_int_equal(record_next(&b, &frame, &e), 0);
}

static void test_errors_travel(void **state)
{
    (void)state;
    BUF_AUTO(b, 4096);
    struct err out = {0};
    struct err back = {0};
    (void)err_set(&out, ERR_CONFLICT, 0, "it is busy");
    record_add_error(&b, &out);
    struct record r = parse_first(&b);
    assert_int_equal(record_to_err(&r, &back), -1);
    assert_int_equal(back.code, ERR_CONFLICT);
    assert_string_equal(back.msg, "it is busy");
    buf_reset(&b);
    struct record_writer w = record_begin(&b, "error");
    record_adds(&w, "code", "a word that nobody knows and that is far too long for it");
    assert_true(record_end(&w));
    r = parse_first(&b);
    (void)record_to_err(&r, &back);
    assert_int_equal(back.code, ERR_INTERNAL);
    assert_string_equal(back.msg, "");
}

static int64_t soon(void)
{
    return clock_mono_ms() + 2000;
}

static void socket_pair(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
}

static void test_exchange_with_descriptor(void **state)
{
    (void)state;
    int pair[2];
    int pipes[2];
    struct err e;
    socket_pair(pair);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    BUF_AUTO(out, 4096);
    BUF_AUTO(in, 4096);
    make_record(&out);
    assert_int_equal(record_send_fd(pair[0], &out, pipes[1], soon(), &e), 0);
    assert_int_equal(record_send(pair[0], &out, soon(), &e), 0);
    struct record r;
    int passed = -1;
    assert_int_equal(record_recv_fd(pair[1], &in, &r, &passed, soon(), &e), 0);
    test_str(record_get(&r, "name"), "web");
    assert_true(passed >= 0);
    assert_true(fcntl(passed, F_GETFD) & FD_CLOEXEC);
    char c = 0;
    assert_int_equal(write(passed, "!", 1), 1);
    assert_int_equal(read(pipes[0], &c, 1), 1);
    assert_int_equal(c, '!');
    (void)close(passed);
    assert_int_equal(record_recv_fd(pair[1], &in, &r, &passed, soon(), &e), 0);
    assert_int_equal(passed, -1);
    (void)close(pair[0]);
    assert_int_equal(record_recv(pair[1], &in, &r, soon(), &e), -1);
    assert_int_equal(e.code, ERR_IO);
    assert_int_equal(e.cause, EPIPE);
    (void)close(pair[1]);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

/* Sends bytes with count copies of one descriptor. */
static void send_many(int fd, const struct buf *bytes, int pass_fd, size_t count)
{
    union {
        char bytes[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = bytes->ptr, .iov_len = bytes->len};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (size_t i = 0; i < count; i++) {
        memcpy(CMSG_DATA(head) + i * sizeof(int), &pass_fd, sizeof(int));
    }
    assert_int_equal(sendmsg(fd, &message, MSG_NOSIGNAL), bytes->len);
}

static int next_free_fd(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)close(fd);
    return fd;
}

static void test_too_many_descriptors(void **state)
{
    (void)state;
    static const size_t counts[] = {2, 4, 8};
    for (size_t i = 0; i < 3; i++) {
        int pair[2];
        struct err e;
        struct record r;
        socket_pair(pair);
        BUF_AUTO(out, 4096);
        BUF_AUTO(in, 4096);
        make_record(&out);
        send_many(pair[0], &out, pair[0], counts[i]);
        int before = next_free_fd();
        int passed = -1;
        assert_int_equal(record_recv_fd(pair[1], &in, &r, &passed, soon(), &e), -1);
        assert_int_equal(e.code, ERR_PROTOCOL);
        assert_int_equal(passed, -1);
        /* None was kept open. */
        assert_int_equal(next_free_fd(), before);
        (void)close(pair[0]);
        (void)close(pair[1]);
    }
}

/* A descriptor in the middle of a frame, which nobody may send, is not kept either. */
static void test_descriptor_in_the_middle(void **state)
{
    (void)state;
    int pair[2];
    struct err e;
    struct record r;
    socket_pair(pair);
    BUF_AUTO(out, 4096);
    BUF_AUTO(in, 4096);
    make_record(&out);
    assert_int_equal(write(pair[0], out.ptr, 1), 1);
    buf_consume(&out, 1);
    send_many(pair[0], &out, pair[0], 1);
    int before = next_free_fd();
    int passed = -1;
    assert_int_equal(record_recv_fd(pair[1], &in, &r, &passed, soon(), &e), 0);
    assert_int_equal(passed, -1);
    assert_int_equal(next_free_fd(), before);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

static void test_deadlines(void **state)
{
    (void)state;
    int pair[2];
    struct err e;
    struct record r;
    socket_pair(pair);
    BUF_AUTO(in, 4096);
    int64_t start = clock_mono_ms();
    assert_int_equal(record_recv(pair[1], &in, &r, start + 50, &e), -1);
    assert_int_equal(e.code, ERR_TIMEOUT);
    /* A peer that stops in the middle of a frame. */
    assert_int_equal(write(pair[0], "\0\0\0\x20\4ki", 7), 7);
    assert_int_equal(record_recv(pair[1], &in, &r, clock_mono_ms() + 50, &e), -1);
    assert_int_equal(e.code, ERR_TIMEOUT);
    assert_true(clock_mono_ms() - start < 2000);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

static void test_reader_bounds(void **state)
{
    (void)state;
    int pair[2];
    struct err e;
    struct record r;
    socket_pair(pair);
    BUF_AUTO(out, 4096);
    make_record(&out);
    BUF_AUTO(small, 20);
    assert_int_equal(record_send(pair[0], &out, soon(), &e), 0);
    assert_int_equal(record_recv(pair[1], &small, &r, soon(), &e), -1);
    assert_int_equal(e.code, ERR_PROTOCOL);
    BUF_AUTO(tiny, 2);
    assert_int_equal(record_recv(pair[1], &tiny, &r, soon(), &e), -1);
    assert_int_equal(e.code, ERR_INTERNAL);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_several_in_one_buffer),
        cmocka_unit_test(test_builder_bounds),
        cmocka_unit_test(test_malformed_frames),
        cmocka_unit_test(test_bad_lengths),
        cmocka_unit_test(test_errors_travel),
        cmocka_unit_test(test_exchange_with_descriptor),
        cmocka_unit_test(test_too_many_descriptors),
        cmocka_unit_test(test_descriptor_in_the_middle),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_reader_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
