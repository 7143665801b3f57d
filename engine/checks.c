/*
 * Checks of mount sources. Never trusts a path: what is checked is the object that openat2 reached.
 * Any thread.
 */
#include "engine/checks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/crypto.h"
#include "lib/fd.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define INIT_BYTES_MAX (64UL << 20)
#define READ_BYTES     65536
#define INIT_SETTLED_S 2

/* The mode of a workspace and of the doors; other bits set would open them to the neighbours. */
#define MODE_WORKSPACE 0700U
#define MODE_DOOR      0711U
#define MODE_ETC       0644U
#define MODE_INIT      0755U

static void source_add(struct checks_sources *list, const struct config *config,
                       const struct checks_source *pattern, const char *rest)
{
    struct checks_source *item = &list->items[list->count++];
    *item = *pattern;
    (void)paths_join(item->source, config->data_dir, rest);
}

static void source_add_etc(struct checks_sources *list, const struct config *config,
                           const struct ulid *id, const char *name, const char *target)
{
    char rest[PATHS_MAX];
    struct checks_source pattern = {
        .target = target, .is_file = true, .is_read_only = true, .mode = MODE_ETC};
    (void)snprintf(rest, sizeof(rest), "run/etc/%s/%s", id->text, name);
    source_add(list, config, &pattern, rest);
}

static void source_add_door(struct checks_sources *list, const struct config *config,
                            const struct ulid *id, const char *role, const char *target,
                            uint64_t uid)
{
    char rest[PATHS_MAX];
    struct checks_source pattern = {
        .target = target, .is_read_only = true, .uid = uid, .mode = MODE_DOOR};
    (void)snprintf(rest, sizeof(rest), "run/%s/%s", role, id->text);
    source_add(list, config, &pattern, rest);
}

void checks_sources_list(const struct config *config, const struct ulid *id, uint64_t uid,
                         const char *init_version, struct checks_sources *ret)
{
    char rest[PATHS_MAX];
    struct checks_source workspace = {
        .target = "/home/sandbox", .uid = uid, .mode = MODE_WORKSPACE};
    struct checks_source init = {
        .target = "/run/sandboxd/init", .is_read_only = true, .mode = MODE_INIT};
    ret->count = 0;
    (void)snprintf(rest, sizeof(rest), "workspaces/%s", id->text);
    source_add(ret, config, &workspace, rest);
    source_add_door(ret, config, id, "control", "/run/sandboxd/control", 0);
    source_add_door(ret, config, id, "in", "/run/sandboxd/in", PATHS_PREVIEW_UID(config->uid_base));
    source_add_door(ret, config, id, "out", "/run/sandboxd/out",
                    PATHS_CREDENTIALS_UID(config->uid_base));
    (void)snprintf(rest, sizeof(rest), "init/%s", init_version);
    source_add(ret, config, &init, rest);
    source_add_etc(ret, config, id, "passwd", "/etc/passwd");
    source_add_etc(ret, config, id, "group", "/etc/group");
    if (config->runsc) {
        source_add_etc(ret, config, id, "resolv.conf", "/etc/resolv.conf");
    }
}

bool checks_init_version_is_valid(struct str text)
{
    if (text.len != CHECKS_INIT_VERSION_LEN) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
    }
    return true;
}

/* Opens a path below the data directory. The data directory itself is the owner's setting and may
 * be reached by a symlink. */
static int checks_open(const struct config *config, const char *path, uint64_t flags, int *ret_fd,
                       struct err *e)
{
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .resolve =
                               RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    int root AUTOCLOSE = open(config->data_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        return err_set(e, ERR_NOT_FOUND, errno, "%s", config->data_dir);
    }
    const char *rest = path + strlen(config->data_dir) + 1;
    int fd = (int)syscall(SYS_openat2, root, rest, &how, sizeof(how));
    if (fd < 0 && errno == ENOENT) {
        return err_set(e, ERR_NOT_FOUND, errno, "%s", path);
    }
    if (fd < 0) {
        return err_set(e, ERR_FORBIDDEN, errno,
                       "%s is not what sandboxd made: a symlink, or not in reach", path);
    }
    *ret_fd = fd;
    return 0;
}

static int checks_stat(const struct checks_source *source, int fd, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return err_set(e, ERR_IO, errno, "%s", source->source);
    }
    if (source->is_file ? !S_ISREG(st.st_mode) : !S_ISDIR(st.st_mode)) {
        return err_set(e, ERR_FORBIDDEN, 0, "%s is not a %s", source->source,
                       source->is_file ? "regular file" : "directory");
    }
    if (st.st_uid != source->uid || st.st_gid != source->uid) {
        return err_set(e, ERR_FORBIDDEN, 0, "%s belongs to %u:%u and must belong to %llu:%llu",
                       source->source, st.st_uid, st.st_gid, (unsigned long long)source->uid,
                       (unsigned long long)source->uid);
    }
    if ((st.st_mode & 07777U) != source->mode) {
        return err_set(e, ERR_FORBIDDEN, 0, "%s has mode %04o and must have %04o", source->source,
                       st.st_mode & 07777U, source->mode);
    }
    if (source->is_file && st.st_nlink != 1) {
        return err_set(e, ERR_FORBIDDEN, 0, "%s has more than one name", source->source);
    }
    return 0;
}

int checks_sources_verify(const struct config *config, const struct checks_sources *sources,
                          struct err *e)
{
    for (size_t i = 0; i < sources->count; i++) {
        int fd AUTOCLOSE = -1;
        if (checks_open(config, sources->items[i].source, O_PATH, &fd, e) < 0 ||
            checks_stat(&sources->items[i], fd, e) < 0) {
            return err_wrap(e, "mount for %s", sources->items[i].target);
        }
    }
    return 0;
}

static int init_hash(int fd, const char *path, char ret_hex[CRYPTO_SHA256_HEX], struct err *e)
{
    char *bytes AUTOFREE = mem_alloc(READ_BYTES);
    struct crypto_hash *hash = crypto_hash_new();
    size_t total = 0;
    ssize_t n = 0;
    while ((n = read(fd, bytes, READ_BYTES)) > 0 && total < INIT_BYTES_MAX) {
        crypto_hash_add(hash, str_n(bytes, (size_t)n));
        total += (size_t)n;
    }
    int cause = errno;
    crypto_hash_hex(hash, ret_hex);
    return n == 0 ? 0 : err_set(e, ERR_FORBIDDEN, n < 0 ? cause : EFBIG, "%s", path);
}

/* The last program that was hashed. Its change time cannot be set, so the same file with the same
 * one is the same program; one that changed just now may change again within a tick of the clock.
 */
static struct {
    pthread_mutex_t lock;
    struct stat st;
    char hex[CRYPTO_SHA256_HEX];
} init_known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool init_is_known(const struct stat *st, char ret_hex[CRYPTO_SHA256_HEX])
{
    LOCK_GUARD(&init_known.lock);
    const struct stat *known = &init_known.st;
    bool is_same = known->st_ino == st->st_ino && known->st_dev == st->st_dev &&
                   known->st_size == st->st_size && known->st_ctim.tv_sec == st->st_ctim.tv_sec &&
                   known->st_ctim.tv_nsec == st->st_ctim.tv_nsec;
    if (is_same) {
        memcpy(ret_hex, init_known.hex, CRYPTO_SHA256_HEX);
    }
    return is_same;
}

static void init_remember(const struct stat *st, const char hex[CRYPTO_SHA256_HEX])
{
    if (st->st_ctim.tv_sec + INIT_SETTLED_S < clock_unix_ms() / 1000) {
        LOCK_GUARD(&init_known.lock);
        init_known.st = *st;
        memcpy(init_known.hex, hex, CRYPTO_SHA256_HEX);
    }
}

static int init_hash_once(int fd, const char *path, char ret_hex[CRYPTO_SHA256_HEX], struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return err_set(e, ERR_IO, errno, "%s", path);
    }
    if (init_is_known(&st, ret_hex)) {
        return 0;
    }
    if (init_hash(fd, path, ret_hex, e) < 0) {
        return -1;
    }
    init_remember(&st, ret_hex);
    return 0;
}

int checks_init_verify(const struct config *config, const char *version, struct err *e)
{
    struct checks_source file = {.is_file = true, .mode = MODE_INIT};
    char rest[PATHS_MAX];
    char hex[CRYPTO_SHA256_HEX];
    int fd AUTOCLOSE = -1;
    (void)snprintf(rest, sizeof(rest), "init/%s/sandboxd-init", version);
    (void)paths_join(file.source, config->data_dir, rest);
    if (checks_open(config, file.source, O_RDONLY | O_NONBLOCK, &fd, e) < 0 || fd < 0 ||
        checks_stat(&file, fd, e) < 0 || init_hash_once(fd, file.source, hex, e) < 0) {
        return err_wrap(e, "supervisor");
    }
    if (!str_starts(str_of(hex), str_of(version))) {
        return err_set(e, ERR_FORBIDDEN, 0, "supervisor: %s is not the program of that version",
                       file.source);
    }
    return 0;
}
