/*
 * Admission: does a start fit into the host's memory. Asks the engine's figures; starts under way
 * keep what they reserved.
 */
#include "control/sandbox/table.h"
#include "lib/clock.h"
#include "lib/thread.h"

/* What must stay for the host itself. */
#define ADMIT_HEADROOM_PERCENT 5
#define ADMIT_RESERVED_MS      60000

static int64_t admit_reserved(struct sandbox_service *s)
{
    int64_t sum = 0;
    size_t bucket = 0;
    int64_t now = clock_mono_ms();
    LOCK_GUARD(&s->lock);
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        bool fresh = now - b->started_ms < ADMIT_RESERVED_MS;
        bool starting = b->status == SANDBOX_CREATING || b->status == SANDBOX_STARTING;
        sum += fresh && starting ? b->reserved_bytes : 0;
    }
    return sum;
}

int admit_check(struct sandbox_service *s, const struct sandbox_preset *preset, int64_t peak_bytes,
                int64_t *ret_need, struct err *e)
{
    struct sandbox_engine_status status;
    int64_t need = preset ? preset->memory_bytes : 0;
    need = peak_bytes > 0 ? peak_bytes : need;
    if (sandbox_engine_status(s, &status, e) != 0) {
        return -1;
    }
    int64_t keep = status.mem_total / 100 * ADMIT_HEADROOM_PERCENT;
    int64_t available = status.mem_available - keep - admit_reserved(s);
    *ret_need = need;
    /* A figure that could not be read refuses nothing. */
    if (status.mem_total > 0 && available < need) {
        (void)err_set(e, ERR_UNAVAILABLE, 0,
                      "not enough memory: this start needs about %lld MiB, %lld MiB are available; "
                      "stop another app or try again in a moment",
                      (long long)(need >> 20), (long long)((available < 0 ? 0 : available) >> 20));
        return err_tag(e, "no_memory");
    }
    return 0;
}
