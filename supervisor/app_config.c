/*
 * What the owner gave the app. It must never reach a disk, a record that goes out, or an
 * environment but that of the app's processes. One thread: PID 1's.
 */
#include "supervisor/app_config.h"

#include "supervisor/settings.h"

/* The secrets of before stay masked: processes that are being ended, and whatever the app wrote of
 * them elsewhere, may still speak of them. */
static void config_mask_anew(struct app *a, const struct app_config *now)
{
    struct mask *before = a->mask;

    a->mask = settings_mask(now, &a->config_before);
    a->world.mask = a->mask;
    for (size_t i = 0; i < APP_PROCESSES_MAX; i++) {
        if (a->processes[i].used) {
            process_mask_changed(&a->processes[i]);
        }
    }
    mask_free(before);
}

bool app_config_take(struct app *a, struct app_settings *next)
{
    struct app_config *now = &a->settings.config;
    bool differs = !now->is_given || now->version != next->config.version;

    if (!next->config.is_given) {
        next->config = *now;
        *now = (struct app_config){0};
        return false;
    }
    if (!differs) {
        return false;
    }
    settings_config_done(&a->config_before);
    a->config_before = *now;
    *now = (struct app_config){0};
    config_mask_anew(a, &next->config);
    a->phase_dirty = true; /* which tells the version */
    return a->configured;
}

void app_config_done(struct app *a)
{
    settings_config_done(&a->config_before);
    mask_free(a->mask);
    a->mask = NULL;
    a->world.mask = NULL;
}
