/*
 * What a started container has really mounted. Reads /proc/<pid>/mountinfo, which needs no ptrace.
 * Any thread.
 */
#include "engine/mounts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/fd.h"
#include "lib/mem.h"

#define MOUNTINFO_BYTES_MAX (4UL << 20)

/* "040" → a blank; -1 when these are not three octal digits. */
static int octal_parse(struct str digits)
{
    int value = 0;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.ptr[i] < '0' || digits.ptr[i] > '7') {
            return -1;
        }
        value = value * 8 + (digits.ptr[i] - '0');
    }
    return digits.len == 3 && value <= UINT8_MAX ? value : -1;
}

/* The kernel writes blank, tab, newline and backslash as \ooo. */
static bool path_unescape(struct str text, char ret_path[MOUNTS_PATH_BYTES])
{
    size_t out = 0;
    for (size_t i = 0; i < text.len; i++) {
        int c = (uint8_t)text.ptr[i];
        if (c == '\\') {
            c = octal_parse(str_cut(text, i + 1, i + 4));
            i += 3;
        }
        if (c < 0 || out + 1 >= MOUNTS_PATH_BYTES) {
            return false;
        }
        ret_path[out++] = (char)c;
    }
    ret_path[out] = '\0';
    return true;
}

/* "36 35 98:0 /root /target options …" */
bool mounts_parse_line(struct str line, struct mounts_line *ret)
{
    struct str columns[5] = {{0}};
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        if (!str_split(&line, ' ', &columns[i])) {
            return false;
        }
    }
    ret->device = columns[2];
    return path_unescape(columns[3], ret->root) && path_unescape(columns[4], ret->target);
}

bool mounts_find(struct str text, const char *target, struct mounts_line *ret)
{
    struct str line;
    bool is_found = false;
    while (str_split(&text, '\n', &line)) {
        struct mounts_line found;
        if (mounts_parse_line(line, &found) && strcmp(found.target, target) == 0) {
            *ret = found;
            is_found = true;
        }
    }
    return is_found;
}

static bool is_above(const char *folder, const char *path)
{
    size_t len = strlen(folder);
    return strcmp(folder, "/") == 0 ||
           (strncmp(folder, path, len) == 0 && (path[len] == '/' || path[len] == '\0'));
}

bool mounts_find_above(struct str text, const char *path, struct mounts_line *ret)
{
    struct str line;
    bool is_found = false;
    while (str_split(&text, '\n', &line)) {
        struct mounts_line found;
        if (mounts_parse_line(line, &found) && is_above(found.target, path) &&
            (!is_found || strlen(found.target) >= strlen(ret->target))) {
            *ret = found;
            is_found = true;
        }
    }
    return is_found;
}

/* The path below the root of its file system, as mountinfo writes it. */
static bool root_of(const struct mounts_line *mount, const char *path,
                    char ret_root[MOUNTS_PATH_BYTES])
{
    const char *rest = strcmp(mount->target, "/") == 0 ? path : path + strlen(mount->target);
    const char *root = strcmp(mount->root, "/") == 0 ? "" : mount->root;
    int len = snprintf(ret_root, MOUNTS_PATH_BYTES, "%s%s", root, *root || *rest ? rest : "/");
    return len >= 0 && len < MOUNTS_PATH_BYTES;
}

/* "/var/lib/docker/containers/<64 hex digits>/hostname" */
bool mounts_own_container(struct str text, char ret_id[MOUNTS_ID_BYTES])
{
    struct mounts_line line;
    struct str end = STR("/hostname");
    size_t id_len = MOUNTS_ID_BYTES - 1;
    if (!mounts_find(text, "/etc/hostname", &line)) {
        return false;
    }
    struct str root = str_of(line.root);
    if (!str_ends(root, end) || root.len < end.len + id_len) {
        return false;
    }
    struct str id = str_cut(root, root.len - end.len - id_len, root.len - end.len);
    for (size_t i = 0; i < id.len; i++) {
        if (!((id.ptr[i] >= '0' && id.ptr[i] <= '9') || (id.ptr[i] >= 'a' && id.ptr[i] <= 'f'))) {
            return false;
        }
    }
    (void)snprintf(ret_id, MOUNTS_ID_BYTES, "%.*s", STR_FMT(id));
    return true;
}

bool mounts_find_own_container(char ret_id[MOUNTS_ID_BYTES])
{
    char *ours AUTOFREE = NULL;
    size_t len = 0;
    return fd_read_file("/proc/self/mountinfo", MOUNTINFO_BYTES_MAX, &ours, &len, NULL) == 0 &&
           mounts_own_container(str_n(ours, len), ret_id);
}

static int mount_check(const struct checks_source *source, struct str ours, struct str theirs,
                       struct err *e)
{
    struct mounts_line host;
    struct mounts_line inside;
    char wanted[MOUNTS_PATH_BYTES];
    if (!mounts_find_above(ours, source->source, &host) ||
        !root_of(&host, source->source, wanted)) {
        return err_set(e, ERR_FORBIDDEN, 0, "no mount of ours holds %s", source->source);
    }
    if (!mounts_find(theirs, source->target, &inside)) {
        return err_set(e, ERR_FORBIDDEN, 0, "nothing is mounted at %s", source->target);
    }
    if (!str_eq(host.device, inside.device) || strcmp(inside.root, wanted) != 0) {
        return err_set(e, ERR_FORBIDDEN, 0, "%s is mounted at %s instead of %s", inside.root,
                       source->target, source->source);
    }
    return 0;
}

int mounts_verify(const struct config *config, pid_t pid, const struct checks_sources *sources,
                  struct err *e)
{
    char path[64];
    char real[PATH_MAX];
    char *ours AUTOFREE = NULL;
    char *theirs AUTOFREE = NULL;
    size_t ours_len = 0;
    size_t theirs_len = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)pid);
    if (fd_read_file(path, MOUNTINFO_BYTES_MAX, &theirs, &theirs_len, e) < 0 ||
        fd_read_file("/proc/self/mountinfo", MOUNTINFO_BYTES_MAX, &ours, &ours_len, e) < 0) {
        return -1;
    }
    /* The owner may have put the data directory behind a symlink of his own. */
    if (!realpath(config->data_dir, real)) {
        return err_set(e, ERR_IO, errno, "%s", config->data_dir);
    }
    for (size_t i = 0; i < sources->count; i++) {
        struct checks_source source = sources->items[i];
        int len = snprintf(source.source, sizeof(source.source), "%s%s", real,
                           sources->items[i].source + strlen(config->data_dir));
        if (len < 0 || (size_t)len >= sizeof(source.source)) {
            return err_set(e, ERR_LIMIT, 0, "%s is too long", real);
        }
        if (mount_check(&source, str_n(ours, ours_len), str_n(theirs, theirs_len), e) < 0) {
            return -1;
        }
    }
    return 0;
}
