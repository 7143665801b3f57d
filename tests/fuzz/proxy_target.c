/*
 * Fuzzes request targets of the credentials role and the patterns they are held against. One
 * thread.
 *
 * Whatever is taken must hold no way up, no empty segment and no byte that a server could read
 * otherwise.
 */
#include <stdint.h>
#include <stdlib.h>

#include "proxy/credentials_path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = str_n(data, size);
    struct str line;
    struct credentials_target t;

    if (credentials_target_parse(input, &t)) {
        demand(t.path.ptr[0] == '/' && t.path.len > 1 && t.provider.len > 0);
        demand(!str_contains(t.path, STR("//")) && !str_contains(t.path, STR("/../")));
        demand(!str_ends(t.path, STR("/..")) && !str_contains(t.path, STR("/./")));
        demand(str_find(t.path, '\\') < 0 && !str_contains(t.path, STR("%2e")));
        demand(!str_contains(t.path, STR("%2f")) && !str_contains(t.path, STR("%5c")));
        demand(str_find(input, ' ') < 0 && str_find(input, '\n') < 0 && str_find(input, '\r') < 0);
        demand(t.provider.len + t.path.len + t.query.len + 1 == size);
    }
    if (str_split(&input, '\n', &line)) {
        (void)credentials_path_matches(line, STR("GET"), input.ptr ? input : STR(""));
    }
    return 0;
}
