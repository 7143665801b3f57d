/*
 * What the owner gave the app. It must never reach a disk, a record that goes out, or an
 * environment but that of the app's processes. One thread: PID 1's.
 */
#include "supervisor/app_config.h"

#include "lib/mem.h"
#include "supervisor/environ.h"
#include "supervisor/settings.h"

#define CONFIG_LISTS_MAX 5

/* ---- what no output may show ---- */

struct config_list {
    char *const *items; /* NULL: none */
    bool is_pairs;      /* KEY=value: the value counts */
};

static struct str config_value(const struct config_list *list, size_t i)
{
    struct str text = str_of(list->items[i]);

    return list->is_pairs ? str_cut(text, (size_t)str_find(text, '=') + 1, text.len) : text;
}

static struct mask *config_mask(const struct config_list *lists, size_t count)
{
    struct str *values AUTOFREE = NULL;
    size_t known = 0;

    for (size_t l = 0; l < count; l++) {
        for (size_t i = 0; lists[l].items && lists[l].items[i]; i++) {
            values = mem_resize(values, known + 1, sizeof(*values));
            values[known++] = config_value(&lists[l], i);
        }
    }
    return mask_new(values, known);
}

/* What was told before stays: processes that are being ended, and whatever the app wrote of it
 * elsewhere, may still speak of it. */
static void config_mask_anew(struct app *a, const struct app_config *now)
{
    const struct config_list lists[CONFIG_LISTS_MAX] = {
        {now->secrets, true},
        {now->masks, false},
        {a->masks_since, false},
        {a->config_before.secrets, true},
        {a->config_before.masks, false},
    };
    struct mask *before = a->mask;

    a->mask = config_mask(lists, CONFIG_LISTS_MAX);
    a->world.mask = a->mask;
    for (size_t i = 0; i < APP_PROCESSES_MAX; i++) {
        if (a->processes[i].used) {
            process_mask_changed(&a->processes[i]);
        }
    }
    mask_free(before);
}

static void config_set_since(struct app *a, char **take_masks)
{
    environ_wipe(a->masks_since);
    environ_free(a->masks_since);
    a->masks_since = take_masks;
}

/* ---- taking it over ---- */

/* What is in force stays; `next` may bring more that no output may show. */
static void config_keep(struct app *a, struct app_config *next)
{
    struct app_config *now = &a->settings.config;

    if (next->is_given) {
        config_set_since(a, TAKE(next->masks));
        config_mask_anew(a, now);
        settings_config_done(next);
    }
    *next = *now;
    *now = (struct app_config){0};
}

bool app_config_take(struct app *a, struct app_settings *next)
{
    struct app_config *now = &a->settings.config;

    if (!next->config.is_given || (now->is_given && now->version == next->config.version)) {
        config_keep(a, &next->config);
        return false;
    }
    settings_config_done(&a->config_before);
    a->config_before = *now;
    *now = (struct app_config){0};
    config_set_since(a, NULL);
    config_mask_anew(a, &next->config);
    a->phase_dirty = true; /* which tells the version */
    return a->configured;
}

void app_config_done(struct app *a)
{
    settings_config_done(&a->config_before);
    config_set_since(a, NULL);
    mask_free(a->mask);
    a->mask = NULL;
    a->world.mask = NULL;
}
