/*
 * Presets: data files below SANDBOXD_PRESETS_DIR, read once at start. The main thread.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/sandbox/table.h"
#include "lib/fd.h"
#include "lib/json_read.h"
#include "lib/mem.h"

#define PRESET_BYTES_MAX            65536
#define PRESET_MEMORY_BYTES_DEFAULT (256LL << 20)

static const char *presets_text(const struct json_value *v, const char *key, const char *fallback)
{
    struct str text = json_get_str(v, key);
    /* Kept for the life of the process. */
    return text.ptr ? mem_dup(text.ptr, text.len) : fallback;
}

static int presets_read(struct sandbox_service *s, const char *path, struct err *e)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;
    struct json_doc *doc AUTO(json_doc) = NULL;
    if (fd_read_file(path, PRESET_BYTES_MAX, &text, &len, e) != 0 ||
        json_parse(str_n(text, len), &doc, e) != 0) {
        return err_wrap(e, "preset %s", path);
    }
    const struct json_value *v = json_root(doc);
    int64_t port = 0;
    int64_t memory_mib = 0;
    struct sandbox_preset *p = &s->presets[s->preset_count];
    *p = (struct sandbox_preset){.id = presets_text(v, "id", ""),
                                 .label = presets_text(v, "label", ""),
                                 .description = presets_text(v, "description", ""),
                                 .image = presets_text(v, "image", "")};
    p->template_name = p->id;
    p->memory_bytes = json_get_int(v, "memory_mib", &memory_mib) && memory_mib > 0
                          ? memory_mib << 20
                          : PRESET_MEMORY_BYTES_DEFAULT;
    if (!p->id[0] || !p->image[0] || !json_get_int(v, "port", &port) || port < 1 || port > 65535) {
        return err_set(e, ERR_INVALID, 0, "preset %s lacks id, image or port", path);
    }
    p->port = (uint16_t)port;
    s->preset_count++;
    return 0;
}

static int presets_order(const void *a, const void *b)
{
    const struct sandbox_preset *left = a;
    const struct sandbox_preset *right = b;
    return strcmp(left->id, right->id);
}

int presets_load(struct sandbox_service *s, struct err *e)
{
    DIR *dir = opendir(s->config->presets_dir);
    struct dirent *entry = NULL;
    int rc = 0;
    if (!dir) {
        return err_set(e, ERR_INVALID, 0, "SANDBOXD_PRESETS_DIR: %s cannot be opened",
                       s->config->presets_dir);
    }
    while (rc == 0 && (entry = readdir(dir)) != NULL && s->preset_count < TABLE_PRESETS_MAX) {
        char path[768];
        (void)snprintf(path, sizeof(path), "%s/%s/preset.json", s->config->presets_dir,
                       entry->d_name);
        struct err missing;
        char *probe AUTOFREE = NULL;
        size_t len = 0;
        if (entry->d_name[0] != '.' &&
            fd_read_file(path, PRESET_BYTES_MAX, &probe, &len, &missing) == 0) {
            rc = presets_read(s, path, e);
        }
    }
    (void)closedir(dir);
    if (rc == 0 && s->preset_count == 0) {
        rc = err_set(e, ERR_INVALID, 0, "no preset below %s", s->config->presets_dir);
    }
    qsort(s->presets, s->preset_count, sizeof(s->presets[0]), presets_order);
    return rc;
}

const struct sandbox_preset *sandbox_presets(const struct sandbox_service *s, size_t *ret_count)
{
    *ret_count = s->preset_count;
    return s->presets;
}

const struct sandbox_preset *sandbox_preset_find(const struct sandbox_service *s, struct str id)
{
    for (size_t i = 0; i < s->preset_count; i++) {
        if (str_is(id, s->presets[i].id)) {
            return &s->presets[i];
        }
    }
    return NULL;
}
