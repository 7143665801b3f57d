/*
 * Tests of the bounded buffer. One thread.
 */
#include "lib/buf.h"
#include "tests/unit/lib/test.h"

static void test_append(void **state)
{
    (void)state;
    BUF_AUTO(b, 1000);
    test_buf(&b, "");
    buf_puts(&b, "one");
    buf_putc(&b, ' ');
    buf_printf(&b, "%d-%s", 42, "x");
    buf_add_str(&b, STR(" end"));
    buf_add(&b, NULL, 0);
    test_buf(&b, "one 42-x end");
    buf_consume(&b, 4);
    test_buf(&b, "42-x end");
    buf_consume(&b, 100);
    test_buf(&b, "");
}

static void test_maximum(void **state)
{
    (void)state;
    BUF_AUTO(b, 8);
    buf_puts(&b, "12345678");
    test_buf(&b, "12345678");
    buf_putc(&b, '9');
    assert_false(buf_ok(&b));
    test_str(buf_str(&b), "12345678");
    /* Once failed it takes nothing, or a gap would go unseen. */
    buf_consume(&b, 8);
    buf_puts(&b, "a");
    assert_false(buf_ok(&b));
    assert_int_equal(b.len, 0);
    buf_reset(&b);
    buf_printf(&b, "%s", "123456789");
    assert_false(buf_ok(&b));
    assert_int_equal(b.len, 0);
    buf_reset(&b);
    buf_puts(&b, "again");
    test_buf(&b, "again");
}

static void test_reserve(void **state)
{
    (void)state;
    BUF_AUTO(b, 100000);
    assert_true(buf_reserve(&b, 70000));
    memset(b.ptr, 'x', 70000);
    buf_grew(&b, 70000);
    assert_int_equal(b.len, 70000);
    assert_int_equal(b.ptr[70000], 0);
    assert_false(buf_reserve(&b, 30001));
    assert_false(buf_reserve(&b, SIZE_MAX));
    assert_false(buf_ok(&b));
}

/* Every length around the room that is there. */
static void test_printf_at_the_edge(void **state)
{
    (void)state;
    for (int before = 0; before < 70; before++) {
        for (int len = 0; len < 70; len++) {
            BUF_AUTO(b, 100);
            buf_printf(&b, "%*s", before, "");
            buf_printf(&b, "%0*d", len, 0);
            size_t added = len ? (size_t)len : 1;
            bool fits = (size_t)before + added <= 100;
            assert_int_equal(buf_ok(&b), fits);
            assert_int_equal(b.len, fits ? (size_t)before + added : (size_t)before);
            assert_int_equal(strlen(b.ptr), b.len);
            buf_printf(&b, "%s", "");
            assert_int_equal(strlen(b.ptr), b.len);
        }
    }
}

static void test_take(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100);
    char *nothing = buf_take(&b);
    assert_string_equal(nothing, "");
    free(nothing);
    buf_puts(&b, "mine");
    char *text = buf_take(&b);
    assert_string_equal(text, "mine");
    free(text);
    test_buf(&b, "");
    buf_puts(&b, "used again");
    buf_done(&b);
    buf_done(&b);
    buf_puts(&b, "and again");
    test_buf(&b, "and again");
    buf_done(&b);
}

/* What was in freed memory cannot be looked at; that it may be used again can. */
static void test_wipe(void **state)
{
    (void)state;
    BUF_WIPED(b, 100);
    buf_wipe(&b);
    buf_puts(&b, "a secret");
    buf_wipe(&b);
    test_buf(&b, "");
    buf_puts(&b, "and another");
    test_buf(&b, "and another");
    assert_int_equal(b.max, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),  cmocka_unit_test(test_maximum),
        cmocka_unit_test(test_reserve), cmocka_unit_test(test_printf_at_the_edge),
        cmocka_unit_test(test_take),    cmocka_unit_test(test_wipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
