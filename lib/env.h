/*
 * Settings from the environment: one line that names the setting, what was found and what is
 * accepted, on anything wrong. Only at start, before threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/err.h"

/* Value, or fallback when unset or empty. Borrowed from the environment. */
const char *env_text(const char *name, const char *fallback);
int env_u64(const char *name, uint64_t min, uint64_t max, uint64_t fallback, uint64_t *ret_value,
            struct err *e) MUST_CHECK;
int env_bool(const char *name, bool fallback, bool *ret_value, struct err *e) MUST_CHECK;
/* Port 1..65535. */
int env_port(const char *name, uint16_t fallback, uint16_t *ret_port, struct err *e) MUST_CHECK;
/* Bytes with optional suffix k, m, g (1024). */
int env_bytes(const char *name, uint64_t min, uint64_t max, uint64_t fallback, uint64_t *ret_bytes,
              struct err *e) MUST_CHECK;
