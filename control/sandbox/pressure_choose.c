/*
 * Who has to go when memory runs short. Pure.
 */
#include "control/sandbox/pressure.h"
#include "lib/clock.h"

#define CHOOSE_CRITICAL_MS 100
/* A rise by this part of what is missing, between two looks, is memory coming back. */
#define CHOOSE_RISE_PART 4

const char *pressure_class_name(enum pressure_class class)
{
    static const char *const names[] = {[PRESSURE_IDLE] = "idle",
                                        [PRESSURE_WATCHED] = "watched",
                                        [PRESSURE_EXEC] = "exec",
                                        [PRESSURE_TASK] = "task",
                                        [PRESSURE_ALWAYS_ON] = "always_on"};
    return names[class];
}

enum pressure_class pressure_class_of(const struct sandbox_service *s, const struct sandbox *b)
{
    int64_t now = clock_mono_ms();
    if (b->idle.always_on) {
        return PRESSURE_ALWAYS_ON;
    }
    if (b->task_holds > 0) {
        return PRESSURE_TASK;
    }
    if (b->holds > 0) {
        return PRESSURE_EXEC;
    }
    bool used = now - b->last_active_ms < s->config->memory_watched_s * 1000;
    bool kept = now < b->idle.keep_alive_ms;
    return used || kept || b->open_connections > 0 || now < b->watched_until_ms ? PRESSURE_WATCHED
                                                                                : PRESSURE_IDLE;
}

/* Twice the mark while programs wait for memory: page cache that is read again and again counts as
 * available. */
static int64_t choose_target(const struct memory_figures *f, enum pressure_level level)
{
    switch (level) {
    case PRESSURE_CRITICAL: return f->critical_bytes;
    case PRESSURE_STALLED: return 2 * f->low_bytes;
    case PRESSURE_LOW:
    case PRESSURE_NONE: break;
    }
    return f->low_bytes;
}

enum pressure_level pressure_level_of(const struct memory_figures *f)
{
    if (f->total_bytes <= 0 || f->low_bytes <= 0) {
        return PRESSURE_NONE; /* not known, or switched off */
    }
    if (f->available_bytes < f->critical_bytes) {
        return PRESSURE_CRITICAL;
    }
    if (f->available_bytes < f->low_bytes) {
        return PRESSURE_LOW;
    }
    return f->stalled && f->available_bytes < 2 * f->low_bytes ? PRESSURE_STALLED : PRESSURE_NONE;
}

enum pressure_level pressure_judge(struct pressure_watch *w, const struct memory_figures *f,
                                   int64_t now_ms)
{
    enum pressure_level level = pressure_level_of(f);
    int64_t rise = w->available_bytes > 0 ? f->available_bytes - w->available_bytes : 0;
    bool was_low = w->low_ms > 0;
    bool was_critical = w->critical_ms > 0 && now_ms - w->critical_ms >= CHOOSE_CRITICAL_MS;
    w->available_bytes = f->available_bytes;
    if (level == PRESSURE_NONE) {
        w->low_ms = 0;
        w->critical_ms = 0;
        return level;
    }
    w->low_ms = was_low ? w->low_ms : now_ms;
    if (level != PRESSURE_CRITICAL) {
        w->critical_ms = 0;
    } else if (w->critical_ms == 0) {
        w->critical_ms = now_ms;
    }
    if (!was_low) {
        return PRESSURE_NONE;
    }
    if (level == PRESSURE_CRITICAL) {
        return was_critical ? level : PRESSURE_LOW;
    }
    int64_t missing = choose_target(f, level) - f->available_bytes;
    return rise > missing / CHOOSE_RISE_PART && rise > 0 ? PRESSURE_NONE : level;
}

static enum pressure_class choose_limit(enum pressure_level level)
{
    return level == PRESSURE_CRITICAL ? PRESSURE_ALWAYS_ON
           : level == PRESSURE_LOW    ? PRESSURE_WATCHED
                                      : PRESSURE_IDLE;
}

static ptrdiff_t choose_largest(const struct pressure_candidate *list, size_t count,
                                enum pressure_class class)
{
    ptrdiff_t best = -1;
    for (size_t i = 0; i < count; i++) {
        if (list[i].class == class && !list[i].leaving &&
            (best < 0 || list[i].resident_bytes > list[best].resident_bytes)) {
            best = (ptrdiff_t)i;
        }
    }
    return best;
}

ptrdiff_t pressure_choose(const struct pressure_candidate *list, size_t count,
                          enum pressure_level level, const struct memory_figures *f)
{
    int64_t coming = f->available_bytes;
    bool leaving[PRESSURE_ALWAYS_ON + 1] = {false};
    for (size_t i = 0; i < count; i++) {
        coming += list[i].leaving ? list[i].resident_bytes : 0;
        leaving[list[i].class] = leaving[list[i].class] || list[i].leaving;
    }
    if (level == PRESSURE_NONE || coming >= choose_target(f, level)) {
        return -1;
    }
    for (int class = PRESSURE_IDLE; class <= (int)choose_limit(level); class ++) {
        ptrdiff_t found = choose_largest(list, count, (enum pressure_class) class);
        if (found >= 0) {
            return found;
        }
        if (leaving[class] && level != PRESSURE_CRITICAL) {
            return -1;
        }
    }
    return -1;
}
