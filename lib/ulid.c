/*
 * Ids: 48 bits of time and 80 random bits that rise within one millisecond. Any thread.
 */
#include "lib/ulid.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#include "lib/clock.h"

static const char ulid_alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

static void ulid_random(uint8_t bytes[10])
{
    /* Ten bytes are given whole or not at all; without them no id could be trusted to be new. */
    if (getrandom(bytes, 10, 0) != 10) {
        abort();
    }
    bytes[0] &= 0x7F; /* room to count up */
}

static void ulid_count_up(uint8_t bytes[10])
{
    for (int i = 9; i >= 0; i--) {
        if (++bytes[i] != 0) {
            return;
        }
    }
}

struct ulid ulid_new(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t last_ms;
    static uint8_t last_random[10];
    uint8_t raw[16];
    (void)pthread_mutex_lock(&lock);
    uint64_t now = (uint64_t)clock_unix_ms();
    if (now > last_ms) {
        last_ms = now;
        ulid_random(last_random);
    } else {
        ulid_count_up(last_random);
    }
    for (int i = 0; i < 6; i++) {
        raw[i] = (uint8_t)(last_ms >> (40 - 8 * i));
    }
    memcpy(raw + 6, last_random, sizeof(last_random));
    (void)pthread_mutex_unlock(&lock);
    struct ulid id;
    /* 128 bits as 26 digits of 5 bits: two zero bits stand in front. */
    for (int digit = 0; digit < ULID_LEN; digit++) {
        unsigned value = 0;
        for (int bit = 0; bit < 5; bit++) {
            int at = digit * 5 + bit - 2;
            unsigned one = at < 0 ? 0 : (raw[at / 8] >> (7 - at % 8)) & 1U;
            value = value << 1 | one;
        }
        id.text[digit] = ulid_alphabet[value];
    }
    id.text[ULID_LEN] = '\0';
    return id;
}

/* Bit c of two words of 64: '0' to '9', then 'a' to 'z' without i, l, o and u. */
static bool ulid_is_digit(char c)
{
    static const uint64_t digits[2] = {0x03FF000000000000, 0x07DF6DFE00000000};
    unsigned at = (unsigned char)c;
    return at < 128 && (digits[at >> 6] >> (at & 63) & 1) != 0;
}

bool ulid_parse(struct str s, struct ulid *ret_id)
{
    if (s.len != ULID_LEN || s.ptr[0] < '0' || s.ptr[0] > '7') {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (!ulid_is_digit(s.ptr[i])) {
            return false;
        }
    }
    memcpy(ret_id->text, s.ptr, ULID_LEN);
    ret_id->text[ULID_LEN] = '\0';
    return true;
}

bool ulid_eq(const struct ulid *a, const struct ulid *b)
{
    return memcmp(a->text, b->text, ULID_LEN) == 0;
}
