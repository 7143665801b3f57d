/*
 * Admission: memory for a start is set aside before it begins, first come first served. Asks for
 * nothing that blocks: the figures are those the engine sends.
 */
#include <stdio.h>

#include "control/sandbox/pressure.h"
#include "lib/clock.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define ADMIT_RESERVED_MS 60000
#define ADMIT_GROWN_PART  5 /* of the promise, all but one: grown up */
#define ADMIT_WAIT_MS     30000
#define ADMIT_FRESH_MS    3000
/* What must stay for the host when the low mark is switched off. */
#define ADMIT_KEEP_PERCENT 5

static int64_t admit_keep(const struct sandbox_service *s)
{
    int64_t percent = s->config->memory_low_percent;
    return s->memory.total_bytes / 100 * (percent > 0 ? percent : ADMIT_KEEP_PERCENT);
}

int64_t admit_need(const struct sandbox *b)
{
    int64_t need = b->last_peak_bytes > 0 ? b->last_peak_bytes
                   : b->preset            ? b->preset->memory_bytes
                                          : 0;
    return b->memory_bytes > 0 && need > b->memory_bytes ? b->memory_bytes : need;
}

/* What of a promise is not in use yet, and so still counts as available on the host. */
static int64_t admit_outstanding(const struct sandbox *b, int64_t now)
{
    int64_t grown = b->reserved_bytes - b->reserved_bytes / ADMIT_GROWN_PART;
    if (b->gone || b->reserved_bytes <= 0 || now - b->reserved_ms >= ADMIT_RESERVED_MS ||
        b->resident_bytes >= grown) {
        return 0;
    }
    return b->reserved_bytes - b->resident_bytes;
}

struct admit_room {
    int64_t free_bytes;   /* for this start, now */
    int64_t coming_bytes; /* from those that stop already */
    int64_t idle_bytes;   /* from those that could be stopped for it */
    bool is_first;        /* nobody who came before waits */
};

static void admit_count(struct sandbox_service *s, const struct sandbox *self,
                        struct admit_room *ret)
{
    int64_t now = clock_mono_ms();
    size_t bucket = 0;
    *ret = (struct admit_room){.free_bytes = s->memory.available_bytes - admit_keep(s),
                               .is_first = true};
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        if (b == self || b->gone) {
            continue;
        }
        bool waits = b->want == WANT_RUN && b->queued_ms > 0;
        ret->is_first = ret->is_first && !(waits && b->order < self->order);
        ret->free_bytes -= admit_outstanding(b, now);
        if (b->want == WANT_STOP || b->status == SANDBOX_STOPPING) {
            ret->coming_bytes += b->resident_bytes;
        } else if (b->status == SANDBOX_RUNNING && !b->working && b->want == WANT_NOTHING &&
                   pressure_class_of(s, b) == PRESSURE_IDLE) {
            ret->idle_bytes += b->resident_bytes;
        }
    }
}

/* The largest idle one. */
static struct sandbox *admit_idle(struct sandbox_service *s)
{
    struct sandbox *best = NULL;
    size_t bucket = 0;
    for (struct sandbox *b = table_each(s, &bucket, NULL); b; b = table_each(s, &bucket, b)) {
        bool idle = !b->gone && b->status == SANDBOX_RUNNING && !b->working &&
                    b->want == WANT_NOTHING && pressure_class_of(s, b) == PRESSURE_IDLE;
        if (idle && (!best || b->resident_bytes > best->resident_bytes)) {
            best = b;
        }
    }
    return best;
}

static int admit_refuse(int64_t need, int64_t available, struct err *e)
{
    (void)err_set(e, ERR_UNAVAILABLE, 0,
                  "not enough memory: this start needs about %lld MiB, %lld MiB are available; "
                  "stop another app, or use a machine with more memory",
                  (long long)(need >> 20), (long long)((available < 0 ? 0 : available) >> 20));
    return err_tag(e, "no_memory");
}

static bool admit_knows(const struct sandbox_service *s)
{
    return s->memory.total_bytes > 0 && clock_mono_ms() - s->memory.at_ms < ADMIT_FRESH_MS;
}

int admit_check(struct sandbox_service *s, int64_t need_bytes, struct err *e)
{
    LOCK_GUARD(&s->lock);
    int64_t room = s->memory.total_bytes - admit_keep(s);
    return admit_knows(s) && need_bytes > room ? admit_refuse(need_bytes, room, e) : 0;
}

struct admit_made {
    struct pressure_candidate stopped; /* id.text[0] is NUL when nobody was */
    struct ulid app_id;
    struct memory_figures figures;
};

/* Stops the largest idle one, when all of them together would be enough. The next look sees to the
 * next. Under the lock. */
static void admit_make_room(struct sandbox_service *s, const struct admit_room *room, int64_t need,
                            struct admit_made *ret)
{
    int64_t have = room->free_bytes + room->coming_bytes;
    struct sandbox *b = admit_idle(s);
    if (!b || have >= need || have + room->idle_bytes < need) {
        return;
    }
    ret->stopped = (struct pressure_candidate){
        .id = b->id, .class = PRESSURE_IDLE, .resident_bytes = b->resident_bytes};
    ret->app_id = b->app_id;
    ret->figures = s->memory;
    pressure_stop(s, b, true);
}

static enum admit admit_take(struct sandbox *b, int64_t need)
{
    b->reserved_bytes = need;
    b->reserved_ms = clock_mono_ms();
    b->resident_bytes = 0;
    b->queued_ms = 0;
    return ADMIT_YES;
}

/* Under the lock. */
static enum admit admit_look(struct sandbox_service *s, struct sandbox *b, char *detail,
                             size_t size, struct admit_made *ret_made, struct err *e)
{
    struct admit_room room;
    int64_t need = admit_need(b);
    int64_t now = clock_mono_ms();
    admit_count(s, b, &room);
    /* A figure that is not known refuses nothing. */
    if (!admit_knows(s) || (room.is_first && room.free_bytes >= need)) {
        return admit_take(b, need);
    }
    b->queued_ms = b->queued_ms > 0 ? b->queued_ms : now;
    if (now - b->queued_ms >= ADMIT_WAIT_MS || need > s->memory.total_bytes - admit_keep(s)) {
        b->queued_ms = 0;
        (void)admit_refuse(need, room.free_bytes, e);
        return ADMIT_NO;
    }
    if (room.is_first) {
        admit_make_room(s, &room, need, ret_made);
    }
    (void)snprintf(detail, size, "waiting for memory: %lld MiB wanted, %lld MiB free",
                   (long long)(need >> 20),
                   (long long)((room.free_bytes < 0 ? 0 : room.free_bytes) >> 20));
    return ADMIT_WAIT;
}

enum admit admit_start(struct sandbox_service *s, const struct ulid *id, char *detail, size_t size,
                       struct err *e)
{
    struct admit_made made = {0};

    enum admit result = ADMIT_NO;
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, id);
        if (!b) {
            (void)err_set(e, ERR_NOT_FOUND, 0, "there is no sandbox %s", id->text);
            return ADMIT_NO;
        }

        result = admit_look(s, b, detail, size, &made, e);
    }

    if (made.stopped.id.text[0]) {
        pressure_tell(s, &made.stopped, &made.app_id, &made.figures, "start");
        table_announce(s, &made.stopped.id);
    }
    return result;
}
