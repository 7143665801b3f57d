/*
 * What it costs on this machine to wake up at all: a program that sleeps half a second at a time
 * and asks for a disk's free space. Beside it stands what our programs cost at rest.
 *
 *     wake PATH COUNT
 *
 * Prints microseconds of CPU for one time.
 */
#include <stdio.h>
#include <sys/statvfs.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/mem.h"

#define WAKE_PAUSE_MS 500

/* Nanoseconds that this program ran; getrusage counts whole ticks on some machines. */
static uint64_t ran_ns(void)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;
    uint64_t ns = 0;
    struct str rest;
    struct str first;
    if (fd_read_file("/proc/self/schedstat", 256, &text, &len, NULL) == 0) {
        rest = str_n(text, len);
        (void)str_split(&rest, ' ', &first);
        (void)str_to_u64(first, UINT64_MAX, &ns);
    }
    return ns;
}

int main(int argc, char **argv)
{
    struct statvfs ignored;
    uint64_t count = 0;
    if (argc != 3 || !str_to_u64(str_of(argv[2]), 1000, &count) || count == 0) {
        (void)fputs("usage: wake PATH COUNT\n", stderr);
        return 2;
    }
    uint64_t before = ran_ns();
    for (uint64_t i = 0; i < count; i++) {
        clock_sleep_ms(WAKE_PAUSE_MS);
        (void)!statvfs(argv[1], &ignored);
    }
    (void)printf("%llu\n", (unsigned long long)((ran_ns() - before) / count / 1000));
    return 0;
}
