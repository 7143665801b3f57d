/*
 * What every unit test of the supervisor includes: cmocka in the order it wants, and the slices of
 * lib/.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/buf.h"
#include "lib/err.h"
#include "lib/record.h"
#include "lib/str.h"
