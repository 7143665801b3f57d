/*
 * Marks. Jobs of the sandbox service and the main thread at start. Must never follow a link below
 * workspaces/, nor take a directory for ours because its name and owner fit.
 */
#include "control/sandbox/marks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/paths.h"

#define MARKS_BYTES_MAX 64
#define MARKS_WRITE_MS  5000
#define MARKS_STATE     "state/instance"
#define MARKS_DISK      "workspaces/.instance"

/* The id in a file, relative to dir. False when there is none: missing, empty or something else. */
static bool marks_read_at(int dir, const char *name, struct ulid *ret)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;
    int fd AUTOCLOSE = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0 && fd_read_all(fd, MARKS_BYTES_MAX, &text, &len, NULL) == 0 &&
           ulid_parse(str_trim(str_n(text, len)), ret);
}

static bool marks_read(const char *data_dir, const char *rest, struct ulid *ret)
{
    char path[PATHS_MAX];
    return marks_read_at(AT_FDCWD, paths_join(path, data_dir, rest), ret);
}

static int marks_write_file(const char *data_dir, const char *rest, const struct ulid *id,
                            struct err *e)
{
    char path[PATHS_MAX];
    char text[ULID_LEN + 2];
    (void)snprintf(text, sizeof(text), "%s\n", id->text);
    return fd_write_file(paths_join(path, data_dir, rest), str_of(text), 0600, e);
}

int marks_prepare(const char *data_dir, struct err *e)
{
    struct ulid id;
    if (marks_read(data_dir, MARKS_STATE, &id)) {
        return 0;
    }
    /* The disk's comes first, so that a crash between the two is no missing disk afterwards. */
    if (!marks_read(data_dir, MARKS_DISK, &id)) {
        id = ulid_new();
        if (marks_write_file(data_dir, MARKS_DISK, &id, e) != 0) {
            return -1;
        }
    }
    return marks_write_file(data_dir, MARKS_STATE, &id, e);
}

int marks_check_disk(const char *data_dir, struct err *e)
{
    struct ulid state;
    struct ulid disk;
    if (marks_read(data_dir, MARKS_STATE, &state) && marks_read(data_dir, MARKS_DISK, &disk) &&
        ulid_eq(&state, &disk)) {
        return 0;
    }
    (void)err_set(e, ERR_NOT_FOUND, 0,
                  "%s/workspaces is not the directory sandboxd made: is the data disk mounted? If "
                  "it is the right one, say so: cp %s/" MARKS_STATE " %s/" MARKS_DISK,
                  data_dir, data_dir, data_dir);
    return err_tag(e, "workspace_missing");
}

/* ---- one workspace ---- */

static int marks_write_at(int ours, const struct ulid *id, struct err *e)
{
    char text[ULID_LEN + 2];
    (void)snprintf(text, sizeof(text), "%s\n", id->text);
    int fd AUTOCLOSE =
        openat(ours, "id", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fd_write_all(fd, text, strlen(text), clock_mono_ms() + MARKS_WRITE_MS, e) != 0 ||
        fsync(fd) != 0) {
        return err_set(e, ERR_IO, errno, "mark the workspace of %s", id->text);
    }
    return 0;
}

static int marks_open(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool marks_is_owned(int fd, uid_t uid, mode_t mode)
{
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == uid && (st.st_mode & 07777) == mode;
}

int marks_write(const char *data_dir, const struct ulid *id, struct err *e)
{
    char path[PATHS_MAX];
    int dir AUTOCLOSE = marks_open(AT_FDCWD, paths_workspace(path, data_dir, id));
    int ours AUTOCLOSE = dir >= 0 ? marks_open(dir, ".sandboxd") : -1;
    if (ours < 0) {
        return err_set(e, ERR_IO, errno, "open %s/.sandboxd", path);
    }
    return marks_write_at(ours, id, e);
}

static int marks_missing(const char *path, const char *what, struct err *e)
{
    (void)err_set(e, ERR_NOT_FOUND, 0,
                  "the workspace %s %s; is the data disk mounted? Nothing is started in its place",
                  path, what);
    return err_tag(e, "workspace_missing");
}

int marks_check(const char *data_dir, const struct ulid *id, uint32_t uid, struct err *e)
{
    char path[PATHS_MAX];
    struct ulid found;
    struct err why;
    int dir AUTOCLOSE = marks_open(AT_FDCWD, paths_workspace(path, data_dir, id));
    if (dir < 0) {
        return marks_missing(path, "is missing", e);
    }
    int ours AUTOCLOSE = marks_open(dir, ".sandboxd");
    if (!marks_is_owned(dir, uid, 0700) || !marks_is_owned(ours, 0, 0700)) {
        return marks_missing(path, "is not the directory sandboxd made", e);
    }
    if (marks_read_at(ours, "id", &found)) {
        return ulid_eq(&found, id) ? 0 : marks_missing(path, "is another sandbox's", e);
    }
    if (marks_write_at(ours, id, &why) != 0) {
        log_warn("a workspace has no mark yet", "sandbox_id", id->text, "error", why.msg);
    }
    return 0;
}
