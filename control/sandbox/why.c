/*
 * Why a sandbox does not answer. Pure.
 */
#include "control/sandbox/why.h"

#include <stdio.h>

#define WHY_KILL_MS 3000 /* between the end of a process and the reading that counts its kill */

static void why_say(struct why *ret, const char *state, const char *message, const char *lines)
{
    ret->state = state;
    (void)snprintf(ret->message, sizeof(ret->message), "%s", message);
    (void)snprintf(ret->lines, sizeof(ret->lines), "%s", lines);
}

static const struct sandbox_process *why_web(const struct sandbox *b)
{
    for (size_t i = 0; i < b->process_count; i++) {
        if (str_is(str_of(b->processes[i].type), "web")) {
            return &b->processes[i];
        }
    }
    return NULL;
}

/* The sentence for anybody; remedies are the owner's and stand in the sandbox's error. */
static const char *why_memory(const char *code)
{
    static const struct {
        const char *code;
        const char *message;
    } plain[] = {
        {STOP_MEMORY, "The app was stopped because the machine ran out of memory."},
        {"out_of_memory", "The app needed more memory than it is allowed, and was ended."},
        {"host_out_of_memory", "The machine had no memory left, and the app was ended."},
    };

    for (size_t i = 0; i < ARRAY_LEN(plain); i++) {
        if (strcmp(code, plain[i].code) == 0) {
            return plain[i].message;
        }
    }
    return NULL;
}

/* What the kernel or Node itself had to do with that end, or NULL. */
static const char *why_web_memory(const struct sandbox *b, const struct sandbox_process *web)
{
    int64_t apart = b->kill_ms - web->ended_ms;
    if (kills_is_node_heap(web->exit_code, web->signal, str_of(web->lines))) {
        return "The app's start command filled the heap that Node allows itself (JavaScript heap "
               "out of memory).";
    }
    bool together = b->kill_ms > 0 && apart > -WHY_KILL_MS && apart < WHY_KILL_MS;
    bool failed = web->signal != 0 || web->exit_code != 0;
    return together && failed ? why_memory(b->trouble.tag) : NULL;
}

static void why_process(const struct sandbox *b, const struct sandbox_process *web, bool final,
                        struct why *ret)
{
    const char *memory = why_web_memory(b, web);
    char message[256];
    if (memory) {
        (void)snprintf(message, sizeof(message), "%s", memory);
    } else if (web->signal > 0) {
        (void)snprintf(message, sizeof(message),
                       "The app's start command was ended by signal %lld.", (long long)web->signal);
    } else {
        (void)snprintf(message, sizeof(message),
                       "The app's start command ended with exit code %lld.",
                       (long long)web->exit_code);
    }
    why_say(ret, final ? "failed" : "waiting", message, web->lines);
}

void why_port(const struct sandbox *b, uint16_t port, struct why *ret)
{
    char message[256];
    const struct sandbox_process *web = why_web(b);
    bool web_failed = port == b->web_port && web && str_is(str_of(web->state), "failed");
    if (b->status != SANDBOX_RUNNING) {
        bool coming = b->status == SANDBOX_STARTING || b->status == SANDBOX_CREATING;
        why_say(ret, coming ? "starting" : "asleep",
                coming                       ? "The app is starting."
                : why_memory(b->trouble.tag) ? why_memory(b->trouble.tag)
                                             : "The app is asleep.",
                "");
    } else if (web_failed) {
        /* First: the phase says only that something failed, the process has the lines. */
        why_process(b, web, true, ret);
    } else if (str_is(str_of(b->phase), "failed")) {
        why_say(ret, "failed", "The app cannot be started as its sandbox.yaml says.", b->detail);
    } else if (str_is(str_of(b->phase), "idle")) {
        why_say(ret, "failed", "The app has nothing to run yet.", b->detail);
    } else if (port == b->web_port && web && str_is(str_of(web->state), "backoff")) {
        /* Ended and tried again: after a few times in a row a person wants to know. */
        why_process(b, web, web->restarts >= 2, ret);
    } else if (b->other_port) {
        (void)snprintf(message, sizeof(message),
                       "The app listens on port %u, but its address is for port %u.", b->other_port,
                       port);
        why_say(ret, "waiting", message, web ? web->lines : "");
    } else {
        (void)snprintf(message, sizeof(message), "Waiting for the app to answer on port %u.", port);
        why_say(ret, b->phase[0] && !str_is(str_of(b->phase), "running") ? "starting" : "waiting",
                message, web ? web->lines : "");
    }
}

/* What a start fails for. owns: the message is all ours and may be shown to the owner; else it may
 * hold words of the engine, which stand in the log and in the API's answer only. */
static const struct why_reason {
    const char *tag;
    const char *message; /* for anyone */
    const char *hint;    /* for the owner, where the message is not ours alone */
    bool owns;
} why_reasons[] = {
    {"no_memory", "The server has no memory free for this app right now.", "", true},
    {"disk_full", "The server's disk is full, and this app was filling it.", "", true},
    {"workspace_missing", "The files of this app are not available on the server right now.", "",
     true},
    {"image_building", "The environment of this app could not be prepared.",
     "curl -XPOST -H \"$AUTH\" 127.0.0.1:9090/v1/presets/<preset>/image   # builds it, says how "
     "far it is and why it failed",
     false},
    {"engine_unavailable", "The server cannot start apps right now.",
     "curl 127.0.0.1:9090/readyz   # says why; systemctl start docker where Docker is down", false},
    {"walls_down", "The server cannot start apps right now: its protection is not in place.",
     "curl 127.0.0.1:9090/readyz   # says what the firewall refused", false},
    {"start_failed", "The app could not be started.",
     "docker compose logs sandboxd   # says why the container did not start", false},
};

void why_failed_start(const struct err *e, const char *last_end, struct why *ret)
{
    const struct why_reason *reason = &why_reasons[ARRAY_LEN(why_reasons) - 1];
    for (size_t i = 0; i < ARRAY_LEN(why_reasons); i++) {
        reason = str_is(str_of(e->tag), why_reasons[i].tag) ? &why_reasons[i] : reason;
    }
    const char *message = reason->message;
    if (strcmp(e->tag, "no_memory") == 0 && strcmp(last_end, STOP_MEMORY) == 0) {
        message = "The app was stopped because the machine ran out of memory, and there is not "
                  "enough of it yet.";
    }
    why_say(ret, "failed", message, reason->owns ? e->msg : reason->hint);
}
