/*
 * Fuzzes what the kernel's /proc files are parsed with: a runtime that imitates them may print
 * anything. One thread.
 */
#include "supervisor/sockets.h"
#include "supervisor/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sockets_list list;
    struct str text = str_n(data, size);
    struct sockaddr_storage to;
    struct tree_entry entry = {0};

    list.count = 0;
    sockets_parse_proc(text, false, &list);
    sockets_parse_proc(text, true, &list);
    for (size_t i = 0; i < list.count; i++) {
        if (list.items[i].port == 0 || sockets_address(&list.items[i], &to) > sizeof(to)) {
            __builtin_trap();
        }
    }
    if (tree_parse_stat(text, &entry) && entry.parent < 0) {
        __builtin_trap();
    }
    return 0;
}
