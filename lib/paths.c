/*
 * Names below the data directory. Pure, any thread.
 */
#include "lib/paths.h"

#include <stdio.h>

char *paths_join(char out[PATHS_MAX], const char *data_dir, const char *rest)
{
    (void)snprintf(out, PATHS_MAX, "%.255s/%.200s", data_dir, rest);
    return out;
}

char *paths_workspace(char out[PATHS_MAX], const char *data_dir, const struct ulid *sandbox)
{
    (void)snprintf(out, PATHS_MAX, "%.255s/workspaces/%s", data_dir, sandbox->text);
    return out;
}

char *paths_door(char out[PATHS_MAX], const char *data_dir, const char *role,
                 const struct ulid *sandbox)
{
    (void)snprintf(out, PATHS_MAX, "%.255s/run/%.32s/%s", data_dir, role, sandbox->text);
    return out;
}

char *paths_door_socket(char out[PATHS_MAX], const char *data_dir, const char *role,
                        const struct ulid *sandbox)
{
    (void)snprintf(out, PATHS_MAX, "%.255s/run/%.32s/%s/%.32s.sock", data_dir, role, sandbox->text,
                   role);
    return out;
}

char *paths_broker_socket(char out[PATHS_MAX], const char *data_dir, const char *role)
{
    (void)snprintf(out, PATHS_MAX, "%.255s/run/broker/%.32s/broker.sock", data_dir, role);
    return out;
}

char *paths_engine_socket(char out[PATHS_MAX], const char *data_dir)
{
    return paths_join(out, data_dir, "run/engine/engine.sock");
}
