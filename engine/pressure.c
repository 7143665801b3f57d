/*
 * Figures of the host's memory. Any thread.
 */
#include "engine/pressure.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "engine/cgroup.h"
#include "engine/figures.h"
#include "lib/fd.h"
#include "lib/mem.h"

#define PRESSURE_PATH      "/proc/pressure/memory"
#define PRESSURE_TRIGGER   "some 150000 2000000"
#define PRESSURE_BYTES_MAX 4096
#define VMSTAT_BYTES_MAX   65536
/* What a few programs together can fill: pages have to be zeroed first. */
#define FILL_BYTES_PER_MS (4ULL << 20)
#define LOOK_MIN_MS       50
#define LOOK_MAX_MS       1000

bool pressure_parse_stall(struct str text, uint64_t *ret_us)
{
    struct str line;
    struct str word;
    struct str prefix = STR("total=");
    while (str_split(&text, '\n', &line)) {
        if (!str_split(&line, ' ', &word) || !str_is(word, "some")) {
            continue;
        }
        while (line.ptr && str_split(&line, ' ', &word)) {
            if (str_starts(word, prefix)) {
                return str_to_u64(str_cut(word, prefix.len, word.len), UINT64_MAX, ret_us);
            }
        }
    }
    return false;
}

static bool pressure_read_stall(uint64_t *ret_us)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;
    struct err ignored;
    return fd_read_file(PRESSURE_PATH, PRESSURE_BYTES_MAX, &text, &len, &ignored) == 0 &&
           pressure_parse_stall(str_n(text, len), ret_us);
}

static uint64_t pressure_read_kills(void)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;
    uint64_t kills = 0;
    struct err ignored;
    if (fd_read_file("/proc/vmstat", VMSTAT_BYTES_MAX, &text, &len, &ignored) == 0) {
        (void)cgroup_parse_key(str_n(text, len), "oom_kill", &kills);
    }
    return kills;
}

int pressure_read(struct pressure_reading *ret, struct err *e)
{
    struct figures_memory memory;
    if (figures_memory_read(&memory, e) < 0) {
        return -1;
    }
    *ret = (struct pressure_reading){.total_bytes = memory.total_bytes,
                                     .available_bytes = memory.available_bytes,
                                     .oom_kills = pressure_read_kills()};
    ret->has_stall = pressure_read_stall(&ret->stall_us);
    return 0;
}

int pressure_open_trigger(void)
{
    static const char trigger[] = PRESSURE_TRIGGER;
    int fd AUTOCLOSE = open(PRESSURE_PATH, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    /* With its NUL: the kernel's own example does so, and cuts the last byte off. */
    if (fd < 0 || write(fd, trigger, sizeof(trigger)) < 0) {
        return -1;
    }
    return TAKE_FD(fd);
}

int64_t pressure_next_ms(uint64_t available_bytes, uint64_t mark_bytes)
{
    if (available_bytes <= mark_bytes) {
        return LOOK_MIN_MS;
    }
    uint64_t ms = (available_bytes - mark_bytes) / FILL_BYTES_PER_MS;
    return ms < LOOK_MIN_MS ? LOOK_MIN_MS : ms > LOOK_MAX_MS ? LOOK_MAX_MS : (int64_t)ms;
}
