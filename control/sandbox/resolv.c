/*
 * Which resolvers a sandbox under runsc asks. Must never hand on an address of loopback: inside,
 * that is the sandbox itself. Jobs of the sandbox service.
 */
#include "control/sandbox/resolv.h"

#include "lib/buf.h"
#include "lib/fd.h"
#include "lib/mem.h"
#include "lib/str.h"

#define RESOLV_BYTES_MAX 65536
#define RESOLV_OUT_BYTES 4096

static bool resolv_is_usable(struct str address)
{
    bool loopback = str_starts(address, STR("127.")) || str_is(address, "::1");
    for (size_t i = 0; i < address.len; i++) {
        char c = address.ptr[i];
        bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        /* A zone ("fe80::1%eth0") means nothing inside. */
        if (!digit && c != '.' && c != ':') {
            return false;
        }
    }
    return address.len > 0 && !loopback;
}

static void resolv_add(struct buf *out, struct str address)
{
    if (resolv_is_usable(address)) {
        buf_printf(out, "nameserver %.*s\n", STR_FMT(address));
    }
}

static void resolv_add_setting(struct buf *out, struct str list)
{
    struct str part;
    while (str_split(&list, ',', &part)) {
        resolv_add(out, str_trim(part));
    }
}

static void resolv_add_file(struct buf *out, const char *path)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;
    struct str line;
    struct str keyword = STR("nameserver");
    if (fd_read_file(path, RESOLV_BYTES_MAX, &text, &len, NULL) != 0) {
        return;
    }
    struct str rest = str_n(text, len);
    while (str_split(&rest, '\n', &line)) {
        line = str_trim(line);
        if (str_starts(line, keyword)) {
            resolv_add(out, str_trim(str_cut(line, keyword.len, line.len)));
        }
    }
}

int resolv_write(const char *path, const char *setting, struct err *e)
{
    BUF_AUTO(out, RESOLV_OUT_BYTES);
    resolv_add_setting(&out, str_of(setting));
    if (out.len == 0) {
        resolv_add_file(&out, "/etc/resolv.conf");
    }
    if (out.len == 0) {
        /* Where systemd-resolved stands before them, the real ones are here. */
        resolv_add_file(&out, "/run/systemd/resolve/resolv.conf");
    }
    /* Seldom another one than last time; writing it would make every wake wait for the disk. */
    char *old AUTOFREE = NULL;
    size_t len = 0;
    if (fd_read_file(path, RESOLV_BYTES_MAX, &old, &len, NULL) == 0 &&
        str_eq(str_n(old, len), buf_str(&out))) {
        return 0;
    }
    return fd_write_file(path, buf_str(&out), 0644, e);
}
