/*
 * The images we know, their contexts and hashes. Any thread; reads the presets directory, the
 * host's CA directory and the directory of build settings, never follows a symlink below them.
 */
#include "engine/presets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/tar.h"
#include "lib/crypto.h"
#include "lib/fd.h"
#include "lib/json_read.h"
#include "lib/mem.h"

#define IMAGES_BYTES_MAX 65536
#define PATH_BYTES       1024
#define TAG_PREFIX       "sandboxd-"

struct context_file {
    char *name; /* owned: where it stands in the context */
    int root;   /* borrowed: which directory it comes from */
    char *path; /* owned: below that directory */
};

struct context {
    struct context_file files[PRESETS_FILES_MAX];
    size_t count;
    int roots[3]; /* owned descriptors, -1 when absent */
};

static void context_free(struct context *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->files[i].name);
        free(c->files[i].path);
    }
    for (size_t i = 0; i < ARRAY_LEN(c->roots); i++) {
        fd_close_cleanup(&c->roots[i]);
    }
    free(c);
}

AUTO_DEFINE(context, context_free);

/* What a walk through one directory collects. */
struct context_walk {
    struct context *context;
    int root;
    const char *prefix; /* "", "ca/", … */
    const char *suffix; /* only names that end so; "" for all */
};

static int walk_add(const struct context_walk *walk, const char *path, struct err *e)
{
    char name[PATH_BYTES];
    struct context *c = walk->context;
    if (!str_ends(str_of(path), str_of(walk->suffix))) {
        return 0;
    }
    if (c->count == PRESETS_FILES_MAX) {
        return err_set(e, ERR_LIMIT, 0, "more than %d files", PRESETS_FILES_MAX);
    }
    int len = snprintf(name, sizeof(name), "%s%s", walk->prefix, path);
    if (len < 0 || (size_t)len >= sizeof(name)) {
        return err_set(e, ERR_LIMIT, 0, "a name of more than %d bytes", PATH_BYTES);
    }
    c->files[c->count++] = (struct context_file){
        .name = mem_strdup(name), .root = walk->root, .path = mem_strdup(path)};
    return 0;
}

static void dir_close_cleanup(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir);
    }
}

struct walk_dirs {
    char *items[PRESETS_FILES_MAX]; /* owned: directories still to read, below the root */
    size_t count;
};

static void walk_dirs_free(struct walk_dirs *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->items[i]);
    }
    free(d);
}

AUTO_DEFINE(walk_dirs, walk_dirs_free);

static int walk_entry(const struct context_walk *walk, struct walk_dirs *dirs, const char *dir,
                      const char *name, struct err *e)
{
    char path[PATH_BYTES];
    struct stat st;
    int len = snprintf(path, sizeof(path), "%s%s%s", dir, *dir ? "/" : "", name);
    if (len < 0 || (size_t)len >= sizeof(path)) {
        return err_set(e, ERR_LIMIT, 0, "a path of more than %d bytes", PATH_BYTES);
    }
    if (fstatat(walk->root, path, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return err_set(e, ERR_IO, errno, "%s", path);
    }
    if (S_ISREG(st.st_mode)) {
        return walk_add(walk, path, e);
    }
    if (S_ISDIR(st.st_mode)) {
        if (dirs->count == ARRAY_LEN(dirs->items)) {
            return err_set(e, ERR_LIMIT, 0, "more than %d directories", PRESETS_FILES_MAX);
        }
        dirs->items[dirs->count++] = mem_strdup(path);
    }
    return 0;
}

static int walk_dir(const struct context_walk *walk, struct walk_dirs *dirs, const char *path,
                    struct err *e)
{
    int fd =
        openat(walk->root, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return err_set(e, ERR_IO, errno, "%s", path);
    }
    DIR *dir __attribute__((cleanup(dir_close_cleanup))) = fdopendir(fd);
    if (!dir) {
        (void)close(fd);
        return err_set(e, ERR_IO, errno, "%s", path);
    }
    /* Only this thread reads from this stream. */
    struct dirent *entry = NULL;
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            walk_entry(walk, dirs, path, entry->d_name, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int walk_run(const struct context_walk *walk, struct err *e)
{
    struct walk_dirs *dirs AUTO(walk_dirs) = mem_alloc(sizeof(*dirs));
    dirs->items[dirs->count++] = mem_strdup("");
    while (dirs->count > 0) {
        char *path AUTOFREE = dirs->items[--dirs->count];
        if (walk_dir(walk, dirs, path, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int file_compare(const void *a, const void *b)
{
    return strcmp(((const struct context_file *)a)->name, ((const struct context_file *)b)->name);
}

/* One of the directories that a context comes from. */
struct context_source {
    size_t slot; /* of the context's roots */
    const char *path;
    bool is_needed; /* a missing one is an error */
    const char *prefix;
    const char *suffix;
};

static int context_add(struct context *c, const struct context_source *source, struct err *e)
{
    int fd = open(source->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        bool is_fine = errno == ENOENT && !source->is_needed;
        return is_fine ? 0 : err_set(e, ERR_NOT_FOUND, errno, "%s", source->path);
    }
    c->roots[source->slot] = fd;
    struct context_walk walk = {
        .context = c, .root = fd, .prefix = source->prefix, .suffix = source->suffix};
    return walk_run(&walk, e) < 0 ? err_wrap(e, "%s", source->path) : 0;
}

/* The same name twice: what came later covers what came first, as a copy into one folder would. */
static void context_drop_doubles(struct context *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        bool is_covered = false;
        for (size_t j = i + 1; j < c->count && !is_covered; j++) {
            is_covered = strcmp(c->files[i].name, c->files[j].name) == 0;
        }
        if (is_covered) {
            free(c->files[i].name);
            free(c->files[i].path);
        } else {
            c->files[kept++] = c->files[i];
        }
    }
    c->count = kept;
}

/* Lists the files of a context, sorted by name. Caller frees. */
static int context_open(const struct config *config, const struct presets_image *image,
                        struct context **ret, struct err *e)
{
    char path[PATH_BYTES];
    struct context *c AUTO(context) = mem_alloc(sizeof(*c));
    for (size_t i = 0; i < ARRAY_LEN(c->roots); i++) {
        c->roots[i] = -1;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", config->presets_dir, image->context);
    struct context_source own = {0, path, true, "", ""};
    struct context_source ca = {1, config->ca_dir, false, "ca/", ".crt"};
    struct context_source settings = {2, config->build_config_dir, true, "build-config/", ""};
    if (context_add(c, &own, e) < 0 || (image->parent < 0 && context_add(c, &ca, e) < 0) ||
        (*config->build_config_dir && context_add(c, &settings, e) < 0)) {
        return -1;
    }
    context_drop_doubles(c);
    qsort(c->files, c->count, sizeof(c->files[0]), file_compare);
    *ret = TAKE(c);
    return 0;
}

/* One file's bytes and whether its owner may run it. Caller frees. */
static int file_read(const struct context_file *file, char **ret_bytes, size_t *ret_len,
                     uint32_t *ret_mode, struct err *e)
{
    struct stat st;
    int fd AUTOCLOSE =
        openat(file->root, file->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_set(e, ERR_IO, errno, "%s", file->path);
    }
    if (fd_read_all(fd, PRESETS_CONTEXT_BYTES_MAX, ret_bytes, ret_len, e) < 0) {
        return err_wrap(e, "%s", file->path);
    }
    *ret_mode = st.st_mode & S_IXUSR ? 0755 : 0644;
    return 0;
}

static int hash_file(struct crypto_hash *hash, const struct context_file *file, struct err *e)
{
    char *bytes AUTOFREE = NULL;
    size_t len = 0;
    uint32_t mode = 0;
    char line[64];
    if (file_read(file, &bytes, &len, &mode, e) < 0) {
        return -1;
    }
    crypto_hash_add(hash, str_n(file->name, strlen(file->name) + 1));
    int mode_len = snprintf(line, sizeof(line), "%o", mode);
    crypto_hash_add(hash, str_n(line, (size_t)mode_len + 1));
    int size_len = snprintf(line, sizeof(line), "%zu", len);
    crypto_hash_add(hash, str_n(line, (size_t)size_len + 1));
    crypto_hash_add(hash, str_n(bytes, len));
    return 0;
}

static int image_hash(const struct config *config, struct presets *presets,
                      struct presets_image *image, struct err *e)
{
    char hex[CRYPTO_SHA256_HEX];
    struct context *context AUTO(context) = NULL;
    if (context_open(config, image, &context, e) < 0) {
        return -1;
    }
    struct crypto_hash *hash = crypto_hash_new();
    int result = 0;
    if (image->parent >= 0) {
        crypto_hash_add(hash, str_of(presets->images[image->parent].hash));
    }
    for (size_t i = 0; i < context->count && result == 0; i++) {
        result = hash_file(hash, &context->files[i], e);
    }
    crypto_hash_hex(hash, hex);
    (void)snprintf(image->hash, sizeof(image->hash), "%.12s", hex);
    (void)snprintf(image->tag, sizeof(image->tag), TAG_PREFIX "%s:%s", image->name, image->hash);
    return result;
}

int presets_context(const struct config *config, const struct presets_image *image, struct buf *out,
                    struct err *e)
{
    struct context *context AUTO(context) = NULL;
    if (context_open(config, image, &context, e) < 0) {
        return err_wrap(e, "build context of %s", image->name);
    }
    for (size_t i = 0; i < context->count; i++) {
        char *bytes AUTOFREE = NULL;
        size_t len = 0;
        uint32_t mode = 0;
        if (file_read(&context->files[i], &bytes, &len, &mode, e) < 0 ||
            tar_add(out, str_of(context->files[i].name), mode, str_n(bytes, len), e) < 0) {
            return err_wrap(e, "build context of %s", image->name);
        }
    }
    tar_end(out);
    if (!buf_ok(out)) {
        return err_set(e, ERR_LIMIT, 0, "build context of %s: more than %lu bytes", image->name,
                       PRESETS_CONTEXT_BYTES_MAX);
    }
    return 0;
}

/* A folder or image name: [a-z0-9-], at most 63. */
static bool name_is_valid(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) {
            return false;
        }
    }
    return name.len > 0 && name.len < PRESETS_NAME_BYTES && name.ptr[0] != '-';
}

static int presets_parse_image(const struct json_value *v, struct presets *presets, struct err *e)
{
    struct str name = json_get_str(v, "name");
    struct str context = json_get_str(v, "context");
    const struct json_value *from = json_get(v, "from");
    if (!name.ptr || !context.ptr || !name_is_valid(name) || !name_is_valid(context) ||
        presets_find(presets, name) >= 0) {
        return err_set(e, ERR_INVALID, 0,
                       "image %zu: name and context must be distinct words of a-z, 0-9 and -",
                       presets->count);
    }
    struct presets_image *image = &presets->images[presets->count];
    *image = (struct presets_image){.parent = -1};
    if (from) {
        image->parent = presets_find(presets, json_as_str(from));
        if (image->parent < 0) {
            return err_set(e, ERR_INVALID, 0,
                           "image %.*s: the image it is from must stand above it", STR_FMT(name));
        }
    }
    (void)snprintf(image->name, sizeof(image->name), "%.*s", STR_FMT(name));
    (void)snprintf(image->context, sizeof(image->context), "%.*s", STR_FMT(context));
    presets->count++;
    return 0;
}

int presets_parse(struct str text, struct presets *ret, struct err *e)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    ret->count = 0;
    if (json_parse(text, &doc, e) < 0) {
        return err_wrap(e, "images.json");
    }
    const struct json_value *images = json_get(json_root(doc), "images");
    if (!json_is_array(images) || json_count(images) == 0 ||
        json_count(images) > PRESETS_IMAGES_MAX) {
        return err_set(e, ERR_INVALID, 0, "images.json: images must be a list of 1 to %d",
                       PRESETS_IMAGES_MAX);
    }
    for (size_t i = 0; i < json_count(images); i++) {
        if (presets_parse_image(json_at(images, i), ret, e) < 0) {
            return err_wrap(e, "images.json");
        }
    }
    return 0;
}

int presets_load(const struct config *config, struct presets *ret, struct err *e)
{
    char path[PATH_BYTES];
    char *text AUTOFREE = NULL;
    size_t len = 0;
    (void)snprintf(path, sizeof(path), "%s/images.json", config->presets_dir);
    if (fd_read_file(path, IMAGES_BYTES_MAX, &text, &len, e) < 0 ||
        presets_parse(str_n(text, len), ret, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < ret->count; i++) {
        if (image_hash(config, ret, &ret->images[i], e) < 0) {
            return err_wrap(e, "image %s", ret->images[i].name);
        }
    }
    return 0;
}

int presets_find(const struct presets *presets, struct str name)
{
    for (size_t i = 0; i < presets->count; i++) {
        if (str_is(name, presets->images[i].name)) {
            return (int)i;
        }
    }
    return -1;
}

struct str presets_name_of_tag(struct str tag)
{
    struct str prefix = STR(TAG_PREFIX);
    ptrdiff_t colon = str_find(tag, ':');
    if (!str_starts(tag, prefix) || colon < (ptrdiff_t)prefix.len) {
        return STR("");
    }
    return str_cut(tag, prefix.len, (size_t)colon);
}
