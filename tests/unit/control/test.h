/*
 * What every unit test of control/ includes: cmocka and its needs. One thread.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/arena.h"
#include "lib/err.h"
#include "lib/str.h"

/* The slice and the text hold the same bytes. */
static inline void test_str(struct str s, const char *want)
{
    assert_int_equal(s.len, strlen(want));
    assert_memory_equal(s.ptr ? s.ptr : "", want, s.len);
}

/* A call that must work: its message when it does not. */
#define OK(call)                   \
    do {                           \
        e.msg[0] = '\0';           \
        if ((call) != 0) {         \
            fail_msg("%s", e.msg); \
        }                          \
    } while (0)
/* A call that must fail with that code. */
#define REFUSED(call, wanted)                    \
    do {                                         \
        e.code = ERR_NONE;                       \
        assert_int_equal(call, -1);              \
        assert_int_equal((int)e.code, (wanted)); \
    } while (0)
