/*
 * What every unit test of lib/ includes: cmocka and its needs. One thread.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/buf.h"
#include "lib/err.h"
#include "lib/str.h"

/* The slice and the text hold the same bytes. */
static inline void test_str(struct str s, const char *want)
{
    assert_int_equal(s.len, strlen(want));
    assert_memory_equal(s.ptr ? s.ptr : "", want, s.len);
}

static inline void test_buf(const struct buf *b, const char *want)
{
    assert_true(buf_ok(b));
    test_str(buf_str(b), want);
    assert_int_equal(b->ptr[b->len], 0);
}
