/*
 * Seeding. It must never touch an app that holds a file. A process of its own, one thread.
 */
#include "supervisor/seed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/err.h"

#define SEED_NAME_BYTES_MAX 64
#define SEED_PREFIX         ".seed-"

bool seed_is_template(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c == '-' && i > 0))) {
            return false;
        }
    }
    return name.len > 0 && name.len <= SEED_NAME_BYTES_MAX;
}

static bool seed_is_nothing(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, ".gitkeep") == 0;
}

bool seed_is_needed(const char *app_dir)
{
    DIR *dir = opendir(app_dir);
    struct dirent *entry = NULL;
    bool empty = true;

    if (!dir) {
        return errno == ENOENT;
    }
    while (empty && (entry = readdir(dir)) != NULL) {
        empty = seed_is_nothing(entry->d_name);
    }
    (void)closedir(dir);
    return empty;
}

/* Runs a tool and waits; its words go to our own stderr. 0 when it succeeded. */
static int seed_run(char *const *argv)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        (void)execvp(argv[0], argv);
        (void)dprintf(STDERR_FILENO, "%s is not in this image\n", argv[0]);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int seed_remove(char *path)
{
    char rm[] = "rm";
    char flags[] = "-rf";
    char dashes[] = "--";
    char *argv[] = {rm, flags, dashes, path, NULL};

    return seed_run(argv);
}

static int seed_copy(char *from, char *to)
{
    char cp[] = "cp";
    char flags[] = "-a";
    char owner[] = "--no-preserve=ownership";
    char reflink[] = "--reflink=auto";
    char dashes[] = "--";
    char *argv[] = {cp, flags, owner, reflink, dashes, from, to, NULL};

    return seed_run(argv);
}

/* What a seeding that was killed left behind. */
static void seed_remove_leftovers(void)
{
    DIR *dir = opendir(SEED_WORKSPACE);
    struct dirent *entry = NULL;
    char path[PATH_MAX];

    while (dir && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, SEED_PREFIX, strlen(SEED_PREFIX)) == 0) {
            (void)snprintf(path, sizeof(path), "%s/%s", SEED_WORKSPACE, entry->d_name);
            (void)seed_remove(path);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
}

static int seed_fail(const char *what)
{
    struct err e = {0};

    (void)err_set(&e, ERR_IO, errno, "%s", what);
    (void)dprintf(STDERR_FILENO, "%s\n", e.msg);
    return 1;
}

static int seed_into_place(const char *copy)
{
    /* A directory that holds nothing but .gitkeep counts as empty. */
    (void)unlink(SEED_APP "/.gitkeep");
    if (rename(copy, SEED_APP) != 0) {
        return seed_fail("move the template's copy to " SEED_APP);
    }
    return 0;
}

int seed_main(const char *template_name, const char *boot_id)
{
    char from[PATH_MAX];
    char copy[PATH_MAX];
    struct stat info;

    (void)snprintf(from, sizeof(from), "%s/%s/.", SEED_TEMPLATES, template_name);
    (void)snprintf(copy, sizeof(copy), "%s/%s%s", SEED_WORKSPACE, SEED_PREFIX, boot_id);
    if (!seed_is_template(str_of(template_name)) || stat(from, &info) != 0) {
        (void)dprintf(STDERR_FILENO, "this image has no template called %s\n", template_name);
        return 1;
    }
    if (mkdir(SEED_WORKSPACE, 0755) != 0 && errno != EEXIST) {
        return seed_fail("make " SEED_WORKSPACE);
    }
    seed_remove_leftovers();
    if (mkdir(copy, 0755) != 0) {
        return seed_fail("make a directory for the template's copy");
    }
    if (seed_copy(from, copy) != 0) {
        (void)seed_remove(copy);
        return 1;
    }
    return seed_into_place(copy);
}
