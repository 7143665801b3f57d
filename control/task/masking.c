/*
 * What owners gave an app, taken out of what its agents say. It must never let a line be stored
 * while it does not know what to take out. The scheduler's thread.
 */
#include "control/task/service.h"
#include "control/vault/app_config.h"
#include "lib/mem.h"

/* The oldest but one goes when there are too many: the first is what the task began with. */
static void masking_push(struct run *run, struct mask *take_mask)
{
    if (!take_mask) {
        return;
    }
    if (run->mask_count == RUN_MASKS_MAX) {
        mask_free(run->masks[1]);
        memmove(&run->masks[1], &run->masks[2], (RUN_MASKS_MAX - 2) * sizeof(run->masks[0]));
        run->mask_count--;
    }
    run->masks[run->mask_count++] = take_mask;
}

int masking_refresh(struct task_service *s, struct run *run, struct err *e)
{
    uint64_t changes = vault_config_changes(s->vault) + 1; /* 0: never looked */
    struct mask *mask = NULL;
    if (run->masks_of == changes) {
        return 0;
    }
    if (vault_config_mask(s->vault, &run->app_id, &mask, e) != 0) {
        return -1;
    }
    masking_push(run, mask);
    run->masks_of = changes;
    return 0;
}

void masking_done(struct run *run)
{
    for (size_t i = 0; i < run->mask_count; i++) {
        mask_free(run->masks[i]);
    }
    run->mask_count = 0;
}

struct str masking_apply(const struct run *run, struct str text, struct buf *out)
{
    bool is_json = str_starts(text, STR("{"));
    for (size_t i = 0; i < run->mask_count; i++) {
        BUF_AUTO(masked, MASKING_TEXT_MAX);
        if (is_json) {
            mask_json(run->masks[i], text, &masked);
        } else {
            mask_text(run->masks[i], text, &masked);
        }
        buf_reset(out);
        buf_add_str(out, buf_ok(&masked) ? buf_str(&masked) : STR(""));
        text = buf_str(out);
    }
    return text;
}
