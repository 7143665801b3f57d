/*
 * What every unit test of proxy/ needs: cmocka behind the headers it demands. One thread.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/buf.h"
#include "lib/mem.h"
#include "lib/str.h"

#define RUN_TESTS(tests) cmocka_run_group_tests((tests), NULL, NULL)
