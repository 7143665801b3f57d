/*
 * When the host runs short of memory: how bad it is, and who has to go. Pure; the thread that acts
 * is pressure.c.
 */
#pragma once

#include "control/sandbox/table.h"

/* Least valuable first. */
enum pressure_class {
    PRESSURE_IDLE,
    PRESSURE_WATCHED,   /* a preview in a visible console pane, or used a moment ago */
    PRESSURE_EXEC,      /* exec or terminal */
    PRESSURE_TASK,      /* an agent is at work */
    PRESSURE_ALWAYS_ON, /* the owner's word */
};

enum pressure_level {
    PRESSURE_NONE,
    PRESSURE_STALLED,  /* programs wait for memory and little is left: idle ones go */
    PRESSURE_LOW,      /* below the mark: watched ones go too */
    PRESSURE_CRITICAL, /* the host is about to die: anything goes */
};

/* "idle", "watched", … */
const char *pressure_class_name(enum pressure_class class);

/* Under the lock: what the sandbox is for at this moment. */
enum pressure_class pressure_class_of(const struct sandbox_service *s, const struct sandbox *b);

struct pressure_candidate {
    struct ulid id;
    enum pressure_class class;
    int64_t resident_bytes;
    bool leaving; /* it stops already */
};

/* How bad one reading is by itself. */
enum pressure_level pressure_level_of(const struct memory_figures *f);

/* What the readings so far amount to: low memory counts when two readings say so, the host's death
 * when two readings at least a tenth of a second apart do, and nothing is done while memory comes
 * back by itself. */
struct pressure_watch {
    int64_t low_ms; /* since when every reading was at least stalled; 0: the last one was not */
    int64_t critical_ms;
    int64_t available_bytes; /* of the last reading */
};
enum pressure_level pressure_judge(struct pressure_watch *w, const struct memory_figures *f,
                                   int64_t now_ms);

/* Index of the one that has to go now, -1: none. The least valuable class that has any left, the
 * largest in it; nobody while what is leaving already will be enough, and no further class while
 * one of a lower class is still leaving, unless the host is about to die. */
ptrdiff_t pressure_choose(const struct pressure_candidate *list, size_t count,
                          enum pressure_level level, const struct memory_figures *f);

/* The event of one stop, with the numbers that led to it. level: "stalled", "low", "critical", or
 * "start" when it made room for another one. Not under the lock. */
void pressure_tell(struct sandbox_service *s, const struct pressure_candidate *c,
                   const struct ulid *app_id, const struct memory_figures *f, const char *level);
