/*
 * Time: monotonic milliseconds for deadlines, wall-clock milliseconds for people. Never mixed. Any
 * thread.
 */
#pragma once

#include <stdint.h>

#define CLOCK_TEXT_BYTES 25 /* 2026-01-02T03:04:05.678Z and NUL */

int64_t clock_mono_ms(void);
int64_t clock_mono_us(void);
int64_t clock_unix_ms(void);
/* RFC 3339 UTC with milliseconds into text[CLOCK_TEXT_BYTES]; returns text. */
char *clock_format(int64_t unix_ms, char text[CLOCK_TEXT_BYTES]);
/* Milliseconds until a monotonic deadline, 0 when past, at most INT_MAX: for poll(). */
int clock_until(int64_t deadline_mono_ms);
void clock_sleep_ms(int64_t ms);
