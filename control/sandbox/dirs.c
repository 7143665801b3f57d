/*
 * Directories. Jobs of the sandbox service and the main thread at start. Must never follow a link
 * below workspaces/.
 */
#include "control/sandbox/dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/sandbox/marks.h"
#include "control/sandbox/resolv.h"
#include "lib/crypto.h"
#include "lib/fd.h"
#include "lib/mem.h"
#include "lib/paths.h"

#define DIRS_INIT_BYTES_MAX (32UL * 1024 * 1024)
#define DIRS_VERSION_HEX    16

/* Makes or repairs one directory. A link or file in its place is an error, never followed. */
static int dirs_make(const char *path, uid_t uid, gid_t gid, mode_t mode, struct err *e)
{
    struct stat st;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return err_set(e, ERR_IO, errno, "make the directory %s", path);
    }
    int fd AUTOCLOSE = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        return err_set(e, ERR_IO, errno, "open the directory %s", path);
    }
    if ((st.st_uid != uid || st.st_gid != gid) && fchown(fd, uid, gid) != 0) {
        return err_set(e, ERR_IO, errno, "give %s to %u:%u", path, uid, gid);
    }
    if ((st.st_mode & 07777) != mode && fchmod(fd, mode) != 0) {
        return err_set(e, ERR_IO, errno, "set the mode of %s", path);
    }
    return 0;
}

static int dirs_make_all(const char *data_dir, uint32_t uid_base, struct err *e)
{
    uid_t preview = PATHS_PREVIEW_UID(uid_base);
    uid_t credentials = PATHS_CREDENTIALS_UID(uid_base);

    const struct {
        const char *path;
        uid_t uid;
        gid_t gid;
        mode_t mode;
    } wanted[] = {
        {"state", 0, 0, 0711},
        {"state/backup", 0, 0, 0700},
        {"state/images", 0, 0, 0700},
        {"state/preview", preview, preview, 0700},
        {"workspaces", 0, 0, 0711},
        {"agent-auth", 0, 0, 0700},
        {"snapshots", 0, 0, 0700},
        {"log", 0, 0, 0700},
        {"init", 0, 0, 0755},
        {"run", 0, 0, 0711},
        {"run/control", 0, 0, 0711},
        {"run/in", 0, preview, 0751},
        {"run/out", 0, credentials, 0751},
        {"run/etc", 0, 0, 0711},
        {"run/engine", 0, 0, 0700},
        {"run/broker", 0, 0, 0711},
        {"run/broker/preview", 0, preview, 0750},
        {"run/broker/credentials", 0, credentials, 0750},
    };

    char path[PATHS_MAX];
    if (dirs_make(data_dir, 0, 0, 0711, e) != 0) {
        return -1;
    }
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        (void)paths_join(path, data_dir, wanted[i].path);
        if (dirs_make(path, wanted[i].uid, wanted[i].gid, wanted[i].mode, e) != 0) {
            return -1;
        }
    }
    return 0;
}

static int dirs_install_init(const char *data_dir, const char *init_source, char ret_version[17],
                             struct err *e)
{
    char *program AUTOFREE = NULL;
    size_t len = 0;
    char hex[CRYPTO_SHA256_HEX];
    char path[PATHS_MAX];
    char rest[64];
    if (fd_read_file(init_source, DIRS_INIT_BYTES_MAX, &program, &len, e) != 0) {
        return err_wrap(e, "the supervisor (SANDBOXD_INIT_SOURCE)");
    }
    crypto_sha256_hex(str_n(program, len), hex);
    (void)snprintf(ret_version, DIRS_VERSION_HEX + 1, "%.16s", hex);
    (void)snprintf(rest, sizeof(rest), "init/%s", ret_version);
    (void)paths_join(path, data_dir, rest);
    if (dirs_make(path, 0, 0, 0755, e) != 0) {
        return -1;
    }
    (void)snprintf(rest, sizeof(rest), "init/%s/sandboxd-init", ret_version);
    (void)paths_join(path, data_dir, rest);
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size == len &&
        (st.st_mode & 07777) == 0755) {
        return 0;
    }
    return fd_write_file(path, str_n(program, len), 0755, e);
}

int dirs_prepare(const char *data_dir, uint32_t uid_base, const char *init_source,
                 char ret_version[17], struct err *e)
{
    return dirs_make_all(data_dir, uid_base, e) != 0 || marks_prepare(data_dir, e) != 0 ||
                   dirs_install_init(data_dir, init_source, ret_version, e) != 0
               ? -1
               : 0;
}

int dirs_make_workspace(const char *data_dir, const struct ulid *id, uint32_t uid, struct err *e)
{
    char path[PATHS_MAX];
    char ours[PATHS_MAX + 16];
    struct stat st;
    (void)paths_workspace(path, data_dir, id);
    (void)snprintf(ours, sizeof(ours), "%s/.sandboxd", path);
    if (marks_check_disk(data_dir, e) != 0) {
        return -1;
    }
    if (lstat(path, &st) == 0 && (!S_ISDIR(st.st_mode) || (st.st_uid != uid && st.st_uid != 0))) {
        return err_set(e, ERR_CONFLICT, 0, "%s exists and is not this sandbox's", path);
    }
    /* Ours goes in before the directory is given away: nobody else can put a link there first. */
    if (dirs_make(path, 0, 0, 0700, e) != 0 || dirs_make(ours, 0, 0, 0700, e) != 0 ||
        marks_write(data_dir, id, e) != 0) {
        return -1;
    }
    return dirs_make(path, uid, uid, 0700, e);
}

static int dirs_make_etc(const struct config *config, const struct ulid *id, uint32_t uid,
                         struct err *e)
{
    char dir[PATHS_MAX];
    char path[PATHS_MAX + 16];
    BUF_AUTO(passwd, 1024);
    BUF_AUTO(group, 512);
    (void)paths_door(dir, config->data_dir, "etc", id);
    if (dirs_make(dir, 0, 0, 0755, e) != 0) {
        return -1;
    }
    buf_printf(&passwd,
               "root:x:0:0:root:/root:/usr/sbin/nologin\n"
               "sandbox:x:%u:%u:sandbox:/home/sandbox:/bin/bash\n"
               "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
               uid, uid);
    buf_printf(&group, "root:x:0:\nsandbox:x:%u:\nnogroup:x:65534:\n", uid);
    (void)snprintf(path, sizeof(path), "%s/passwd", dir);
    if (access(path, F_OK) != 0 && fd_write_file(path, buf_str(&passwd), 0644, e) != 0) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/group", dir);
    if (access(path, F_OK) != 0 && fd_write_file(path, buf_str(&group), 0644, e) != 0) {
        return -1;
    }
    /* Looked at each time: the machine may have moved to other resolvers. */
    (void)snprintf(path, sizeof(path), "%s/resolv.conf", dir);
    return resolv_write(path, config->dns, e);
}

int dirs_make_doors(const struct config *config, const struct ulid *id, uint32_t uid, struct err *e)
{
    const struct {
        const char *role;
        uid_t owner;
    } doors[] = {{"control", 0},
                 {"in", PATHS_PREVIEW_UID(config->uid_base)},
                 {"out", PATHS_CREDENTIALS_UID(config->uid_base)}};

    char path[PATHS_MAX];
    for (size_t i = 0; i < ARRAY_LEN(doors); i++) {
        (void)paths_door(path, config->data_dir, doors[i].role, id);
        if (dirs_make(path, doors[i].owner, doors[i].owner, 0711, e) != 0) {
            return -1;
        }
    }
    return dirs_make_etc(config, id, uid, e);
}

void dirs_remove_doors(const char *data_dir, const struct ulid *id)
{
    static const char *const files[][2] = {
        {"control", "control.sock"}, {"in", "in.sock"}, {"out", "out.sock"},
        {"etc", "passwd"},           {"etc", "group"},  {"etc", "resolv.conf"}};
    static const char *const roles[] = {"control", "in", "out", "etc"};
    char dir[PATHS_MAX];
    char path[PATHS_MAX + 32];
    /* What is missing already is as it should be; what stays is found by the next removal. */
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        (void)paths_door(dir, data_dir, files[i][0], id);
        (void)snprintf(path, sizeof(path), "%s/%s", dir, files[i][1]);
        (void)unlink(path);
    }
    for (size_t i = 0; i < ARRAY_LEN(roles); i++) {
        (void)rmdir(paths_door(dir, data_dir, roles[i], id));
    }
}
