/*
 * Containers that are being started. Must never take a process of a nested namespace, or of another
 * container, for PID 1. Any thread; the lock is held for copies only.
 */
#include "engine/starting.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/cgroup.h"
#include "lib/fd.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define STARTING_MAX       64
#define STATUS_BYTES_MAX   65536
#define STATUS_PATH_BYTES  64
#define STATUS_DEPTH_BELOW 2 /* numbers in the line: ours, and that of the namespace below */

struct starting {
    struct ulid id; /* empty: free */
    char container_id[INSPECT_ID_BYTES];
    uint64_t uid;
};

static pthread_mutex_t starting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct starting starting_list[STARTING_MAX];

static struct starting *starting_find(const struct ulid *id)
{
    for (size_t i = 0; i < STARTING_MAX; i++) {
        if (strcmp(starting_list[i].id.text, id->text) == 0) {
            return &starting_list[i];
        }
    }
    return NULL;
}

void starting_begin(const struct inspect *container)
{
    static const struct ulid none;
    LOCK_GUARD(&starting_lock);
    struct starting *slot = starting_find(&container->id);
    slot = slot ? slot : starting_find(&none);
    if (slot) {
        slot->id = container->id;
        slot->uid = container->request.uid;
        memcpy(slot->container_id, container->container_id, sizeof(slot->container_id));
    }
}

void starting_end(const struct inspect *container)
{
    LOCK_GUARD(&starting_lock);
    struct starting *slot = starting_find(&container->id);
    if (slot) {
        *slot = (struct starting){0};
    }
}

bool starting_status_is_init(struct str status)
{
    struct str line;
    struct str word;
    while (str_split(&status, '\n', &line)) {
        if (!str_starts(line, STR("NSpid:\t"))) {
            continue;
        }
        struct str numbers = str_cut(line, 7, line.len);
        size_t depth = 0;
        while (str_split(&numbers, '\t', &word)) {
            depth++;
        }
        return depth == STATUS_DEPTH_BELOW && str_is(word, "1");
    }
    return false;
}

static bool process_is_first(pid_t pid)
{
    char path[STATUS_PATH_BYTES];
    char *text AUTOFREE = NULL;
    size_t len = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    return fd_read_file(path, STATUS_BYTES_MAX, &text, &len, NULL) == 0 &&
           starting_status_is_init(str_n(text, len));
}

bool starting_is_init(const struct ulid *id, pid_t pid, uid_t uid)
{
    struct starting found = {0};
    bool is_in = false;
    {
        LOCK_GUARD(&starting_lock);
        const struct starting *slot = starting_find(id);
        if (slot) {
            found = *slot;
        }
    }
    return found.container_id[0] && pid > 0 && uid == found.uid && process_is_first(pid) &&
           cgroup_has_process(pid, found.container_id, &is_in, NULL) == 0 && is_in;
}
