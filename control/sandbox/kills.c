/*
 * The truth about signal 9 and exit 137: killed at the sandbox's own limit, killed because the host
 * had no memory left, or Node's own heap. Each with what to do about it.
 */
#include <stdio.h>

#include "control/sandbox/table.h"
#include "lib/clock.h"
#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/thread.h"

#define KILLS_EXIT_KILLED 137
#define KILLS_EXIT_ABORT  134
#define KILLS_SIG_ABORT   6
#define KILLS_HEAP_LINE   "JavaScript heap out of memory"

static void kills_limit_text(int64_t limit_bytes, char *out, size_t size)
{
    if (limit_bytes > 0) {
        (void)snprintf(out, size, " of %lld MiB", (long long)(limit_bytes >> 20));
    } else {
        out[0] = '\0';
    }
}

/* what: "a process of the app", "the sandbox". */
static void kills_say(const char *what, int64_t limit_bytes, bool host, struct err *e)
{
    char limit[48];
    kills_limit_text(limit_bytes, limit, sizeof(limit));
    if (host) {
        (void)err_set(e, ERR_UNAVAILABLE, 0,
                      "%s was killed by the kernel because the machine had no memory left; stop "
                      "other apps or use a machine with more memory",
                      what);
        (void)err_tag(e, "host_out_of_memory");
    } else {
        (void)err_set(e, ERR_UNAVAILABLE, 0,
                      "%s was killed by the kernel at the sandbox's memory limit%s; give it more "
                      "(memory_bytes of its app, SANDBOXD_SANDBOX_MEMORY for all) or make it "
                      "use less",
                      what, limit);
        (void)err_tag(e, "out_of_memory");
    }
}

static void kills_tell(struct sandbox_service *s, const struct sandbox *b, const char *kind,
                       const struct err *why)
{
    BUF_AUTO(payload, 2048);
    struct json_writer w;
    int64_t available_bytes = 0;
    {
        LOCK_GUARD(&s->lock);
        available_bytes = s->memory.available_bytes;
    }
    json_begin(&w, &payload);
    json_object(&w, NULL);
    json_text(&w, "code", why->tag);
    json_text(&w, "message", why->msg);
    json_int(&w, "kills", b->oom_kills);
    json_int(&w, "memory_limit_bytes", b->limit_bytes);
    json_int(&w, "available_bytes", available_bytes);
    json_object_end(&w);
    log_warn("a process of a sandbox ended for memory", "sandbox_id", b->id.text, "code", why->tag,
             "error", why->msg);
    sandbox_event(s, kind, "warning", "", &b->app_id, &b->id, payload.ptr);
}

/* On disk, in the log and in the events; then whoever looks is told. */
static void kills_publish(struct sandbox_service *s, const struct sandbox *copy, const char *kind)
{
    const struct err *why = &copy->trouble;
    struct err e;
    if (sandboxes_set_kill(s->db, &copy->id, copy->oom_kills, why->tag, why->msg, &e) != 0) {
        log_error("a kill was not stored", "sandbox_id", copy->id.text, "error", e.msg);
    }
    kills_tell(s, copy, kind, why);
    table_announce(s, &copy->id);
}

void kills_note(struct sandbox_service *s, const struct ulid *id, int64_t kills,
                struct str killed_by)
{
    struct sandbox copy;
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, id);
        if (!b) {
            return;
        }
        kills_say("a process of the app", b->limit_bytes, str_is(killed_by, "host"), &b->trouble);
        b->oom_kills = kills;
        b->kill_ms = clock_mono_ms();
        copy = *b;
        copy.processes = NULL;
        table_changed(s, b);
    }

    kills_publish(s, &copy, "sandbox.memory_kill");
}

void kills_note_heap(struct sandbox_service *s, const struct ulid *id)
{
    struct sandbox copy;
    {
        LOCK_GUARD(&s->lock);
        struct sandbox *b = table_live(s, id);
        if (!b || b->status != SANDBOX_RUNNING) {
            return;
        }
        kills_node_heap(&b->trouble);
        copy = *b;
        copy.processes = NULL;
        table_changed(s, b);
    }

    kills_publish(s, &copy, "sandbox.heap_full");
}

void kills_death(const struct sandbox *b, const struct engine_container *c, struct str killed_by,
                 struct err *e)
{
    bool killed = c->exit_code == KILLS_EXIT_KILLED;
    /* Docker's word stays for the whole run: one kill that is known explains no later end. */
    bool docker_says = killed && c->oom && b->oom_kills == 0;
    if (str_is(str_of(c->state), "missing")) {
        (void)err_set(e, ERR_UNAVAILABLE, 0,
                      "the sandbox's container was removed from outside; the next request makes it "
                      "anew, its files are there");
        (void)err_tag(e, "removed");
    } else if (killed && str_is(killed_by, "host")) {
        kills_say("the sandbox", b->limit_bytes, true, e);
    } else if ((killed && str_is(killed_by, "limit")) || docker_says) {
        kills_say("the sandbox", b->limit_bytes, false, e);
    } else if (killed) {
        (void)err_set(e, ERR_UNAVAILABLE, 0,
                      "the sandbox was killed from outside (signal 9); the next request starts it");
        (void)err_tag(e, "killed");
    } else {
        (void)err_set(e, ERR_UNAVAILABLE, 0,
                      "the sandbox ended by itself (exit %lld%s%.200s); the next request starts it",
                      (long long)c->exit_code, c->error[0] ? ": " : "", c->error);
        (void)err_tag(e, "ended");
    }
}

bool kills_is_node_heap(int64_t exit_code, int64_t signal, struct str lines)
{
    bool aborted = exit_code == KILLS_EXIT_ABORT || signal == KILLS_SIG_ABORT;
    /* A shell or npm in between has an exit code of its own. */
    return (aborted || exit_code != 0 || signal != 0) && str_contains(lines, STR(KILLS_HEAP_LINE));
}

void kills_node_heap(struct err *e)
{
    (void)err_set(e, ERR_UNAVAILABLE, 0,
                  "Node reached the limit of its own heap (" KILLS_HEAP_LINE
                  "), not that of the sandbox; set NODE_OPTIONS=--max-old-space-size=<MiB> in the "
                  "start command, and give the sandbox more memory than that");
    (void)err_tag(e, "node_heap_limit");
}
