/*
 * Ports that listen inside a sandbox. The table is the kernel's, its size the sandbox's: bounded.
 * Any thread.
 */
#include "engine/ports.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/fd.h"
#include "lib/mem.h"

#define TABLE_BYTES_MAX (8UL << 20) /* 50,000 sockets */
#define STATE_LISTEN    "0A"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

/* "0100007F:0BB8" → 3000; -1 for anything else. */
static int line_port(struct str address)
{
    ptrdiff_t colon = str_find(address, ':');
    int port = 0;
    if (colon < 0 || address.len != (size_t)colon + 5) {
        return -1;
    }
    for (size_t i = (size_t)colon + 1; i < address.len; i++) {
        int digit = hex_digit(address.ptr[i]);
        if (digit < 0) {
            return -1;
        }
        port = port * 16 + digit;
    }
    return port;
}

/* The next word of a line of columns. */
static struct str line_word(struct str *rest)
{
    struct str word = {0};
    *rest = str_trim(*rest);
    if (!str_split(rest, ' ', &word)) {
        return STR("");
    }
    return word;
}

bool ports_table_has(struct str text, uint16_t port)
{
    struct str line;
    while (str_split(&text, '\n', &line)) {
        (void)line_word(&line); /* the number of the slot */
        struct str local = line_word(&line);
        (void)line_word(&line); /* the other end */
        struct str state = line_word(&line);
        if (str_is(state, STATE_LISTEN) && line_port(local) == port) {
            return true;
        }
    }
    return false;
}

static int table_has(pid_t pid, const char *table, uint16_t port, bool *ret_open, struct err *e)
{
    char path[64];
    char *text AUTOFREE = NULL;
    size_t len = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, table);
    if (fd_read_file(path, TABLE_BYTES_MAX, &text, &len, e) < 0) {
        return -1;
    }
    *ret_open = ports_table_has(str_n(text, len), port);
    return 0;
}

int ports_is_open(pid_t pid, uint16_t port, bool *ret_open, struct err *e)
{
    struct err ignored;
    bool is_open = false;
    if (table_has(pid, "tcp", port, &is_open, e) < 0) {
        return -1;
    }
    /* A kernel without IPv6 has no second table. */
    if (!is_open && table_has(pid, "tcp6", port, &is_open, &ignored) < 0 &&
        ignored.code != ERR_NOT_FOUND) {
        *e = ignored;
        return -1;
    }
    *ret_open = is_open;
    return 0;
}
