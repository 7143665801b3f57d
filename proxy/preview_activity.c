/*
 * Activity accounting: a ring of the rows that have something to tell, and a timer that runs only
 * while it is not empty.
 *
 * Must never cost a system call per request. Main thread.
 */
#include "proxy/preview_activity.h"

#include "proxy/limits.h"

static struct {
    struct broker *broker;
    uv_timer_t timer;
    struct ids_entry *first; /* of a list through route_activity */
} activity;

static struct route *row(struct ids_entry *entry)
{
    return (struct route *)entry;
}

static void unlist(struct route *r)
{
    struct route_activity *a = &r->activity;

    if (!a->is_listed) {
        return;
    }
    if (a->prev) {
        row(a->prev)->activity.next = a->next;
    } else {
        activity.first = a->next;
    }
    if (a->next) {
        row(a->next)->activity.prev = a->prev;
    }
    a->prev = a->next = NULL;
    a->is_listed = false;
}

static bool add_row(struct buf *out, const struct route *r)
{
    struct record_writer w = record_begin(out, "activity");

    record_adds(&w, "id", r->entry.id.text);
    record_addn(&w, "open", r->activity.open);
    record_addn(&w, "age_ms", loop_now_ms() - r->activity.last_byte_ms);
    return record_end(&w);
}

/* What cannot be told now is told later: rows stay listed. */
void activity_tell(void)
{
    BUF_AUTO(out, LIMIT_BROKER_OUT_BYTES);

    for (struct ids_entry *entry = activity.first; entry; entry = row(entry)->activity.next) {
        if (add_row(&out, row(entry))) {
            continue;
        }
        /* Full: what is there goes first. */
        if (!broker_send(activity.broker, &out)) {
            return;
        }
        buf_reset(&out);
        (void)add_row(&out, row(entry));
    }
    if (out.len > 0 && !broker_send(activity.broker, &out)) {
        return;
    }
    for (struct ids_entry *entry = activity.first, *next; entry; entry = next) {
        next = row(entry)->activity.next;
        if (row(entry)->activity.open == 0) {
            unlist(row(entry));
        }
    }
}

static void tell(uv_timer_t *timer)
{
    activity_tell();
    if (!activity.first) {
        (void)uv_timer_stop(timer);
    }
}

static void list(struct route *r)
{
    struct route_activity *a = &r->activity;

    if (a->is_listed) {
        return;
    }
    a->is_listed = true;
    a->prev = NULL;
    a->next = activity.first;
    if (activity.first) {
        row(activity.first)->activity.prev = &r->entry;
    }
    activity.first = &r->entry;
    if (!uv_is_active((uv_handle_t *)&activity.timer)) {
        (void)uv_timer_start(&activity.timer, tell, LIMIT_ACTIVITY_MS, LIMIT_ACTIVITY_MS);
    }
}

void activity_init(struct broker *broker)
{
    activity.broker = broker;
    (void)uv_timer_init(loop_get(), &activity.timer);
}

void activity_open(struct route *r)
{
    r->activity.open++;
    activity_byte(r);
}

void activity_byte(struct route *r)
{
    r->activity.last_byte_ms = loop_now_ms();
    list(r);
}

void activity_close(struct route *r)
{
    r->activity.open--;
    activity_byte(r);
}

void activity_forget(struct route *r)
{
    unlist(r);
}
