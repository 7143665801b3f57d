/*
 * Settings from the environment. Only at start.
 */
#include "lib/env.h"

#include <inttypes.h>
#include <stdlib.h>

#include "lib/str.h"

const char *env_text(const char *name, const char *fallback)
{
    const char *value = getenv(name);
    return value && value[0] ? value : fallback;
}

int env_u64(const char *name, uint64_t min, uint64_t max, uint64_t fallback, uint64_t *ret_value,
            struct err *e)
{
    const char *text = env_text(name, NULL);
    uint64_t value = fallback;
    if (text && (!str_to_u64(str_of(text), max, &value) || value < min)) {
        return err_set(e, ERR_INVALID, 0,
                       "%s is \"%.64s\"; a whole number from %" PRIu64 " to %" PRIu64 " is wanted",
                       name, text, min, max);
    }
    *ret_value = value;
    return 0;
}

int env_bool(const char *name, bool fallback, bool *ret_value, struct err *e)
{
    const char *text = env_text(name, NULL);
    bool value = fallback;
    if (text && !str_to_bool(str_of(text), &value)) {
        return err_set(e, ERR_INVALID, 0,
                       "%s is \"%.64s\"; true, 1, yes, on or false, 0, no, off is wanted", name,
                       text);
    }
    *ret_value = value;
    return 0;
}

int env_port(const char *name, uint16_t fallback, uint16_t *ret_port, struct err *e)
{
    uint64_t value = 0;
    if (env_u64(name, 1, 65535, fallback, &value, e) != 0) {
        return -1;
    }
    *ret_port = (uint16_t)value;
    return 0;
}

int env_bytes(const char *name, uint64_t min, uint64_t max, uint64_t fallback, uint64_t *ret_bytes,
              struct err *e)
{
    const char *text = env_text(name, NULL);
    if (!text) {
        *ret_bytes = fallback;
        return 0;
    }
    struct str s = str_of(text);
    unsigned shift = 0;
    char last = s.ptr[s.len - 1];
    shift = last == 'k' || last == 'K' ? 10 : shift;
    shift = last == 'm' || last == 'M' ? 20 : shift;
    shift = last == 'g' || last == 'G' ? 30 : shift;
    uint64_t value = 0;
    if (!str_to_u64(str_cut(s, 0, s.len - (shift ? 1 : 0)), max >> shift, &value) ||
        value << shift < min) {
        return err_set(e, ERR_INVALID, 0,
                       "%s is \"%.64s\"; bytes from %" PRIu64 " to %" PRIu64
                       " are wanted, with k, m or g behind the number if you like",
                       name, text, min, max);
    }
    *ret_bytes = value << shift;
    return 0;
}
