/*
 * The console's static files: found once at start, mapped, never read by a path from a request.
 * Worker threads read only.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/api/api.h"
#include "lib/fd.h"
#include "lib/log.h"

#define CONSOLE_FILES_MAX      128
#define CONSOLE_FILE_BYTES_MAX (8L * 1024 * 1024)

struct console_file {
    char path[256]; /* as requested: "/assets/app.js" */
    const char *type;
    struct str content; /* mapped for the life of the process */
};

static struct console_file console_files[CONSOLE_FILES_MAX];
static size_t console_count;

static const char *console_type(const char *name)
{
    static const char *const types[][2] = {{".html", "text/html; charset=utf-8"},
                                           {".js", "text/javascript; charset=utf-8"},
                                           {".css", "text/css; charset=utf-8"},
                                           {".svg", "image/svg+xml"},
                                           {".png", "image/png"},
                                           {".ico", "image/x-icon"},
                                           {".woff2", "font/woff2"},
                                           {".json", "application/json"},
                                           {".txt", "text/plain; charset=utf-8"},
                                           {".webmanifest", "application/manifest+json"}};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (str_ends(str_of(name), str_of(types[i][0]))) {
            return types[i][1];
        }
    }
    return NULL;
}

static void console_add(int dir, const char *prefix, const char *name)
{
    struct stat st;
    const char *type = console_type(name);
    int fd AUTOCLOSE = type ? openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
        st.st_size > CONSOLE_FILE_BYTES_MAX || console_count == CONSOLE_FILES_MAX) {
        return;
    }
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) {
        return;
    }
    struct console_file *f = &console_files[console_count++];
    (void)snprintf(f->path, sizeof(f->path), "%s/%s", prefix, name);
    f->type = type;
    f->content = str_n(at, (size_t)st.st_size);
}

static void console_add_all(const char *path, const char *prefix)
{
    DIR *dir = opendir(path);
    struct dirent *entry = NULL;
    while (dir && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            console_add(dirfd(dir), prefix, entry->d_name);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
}

void api_console_load(const struct config *config)
{
    char assets[768];
    (void)snprintf(assets, sizeof(assets), "%s/assets", config->console_dir);
    console_add_all(config->console_dir, "");
    console_add_all(assets, "/assets");
    if (console_count == 0) {
        log_warn("the console's files are missing", "directory", config->console_dir);
    }
}

static const struct console_file *console_find(struct str path)
{
    /* Two places of one document: /enter is where a private preview sends its owner for a ticket.
     */
    path = str_is(path, "/") || str_is(path, "/enter") ? STR("/index.html") : path;
    for (size_t i = 0; i < console_count; i++) {
        if (str_is(path, console_files[i].path)) {
            return &console_files[i];
        }
    }
    return NULL;
}

void api_console_file(struct http_request *r, struct http_response *p, void *ctx)
{
    (void)ctx;
    const struct console_file *f = console_find(r->path);
    if (!f) {
        http_error(p, "not_found", "%s",
                   console_count ? "there is nothing at this path"
                                 : "the console is not installed; the API works");
        return;
    }
    bool hashed = str_starts(r->path, STR("/assets/"));
    http_add_header(p, "Cache-Control",
                    hashed ? "public, max-age=31536000, immutable" : "no-cache");
    buf_add_str(&p->body, f->content);
    p->content_type = f->type;
}
