/*
 * Tasks: an argv run below a runner, its input written, its lines kept until they are acknowledged.
 * What a line means is known elsewhere. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/buf.h"
#include "lib/record.h"
#include "lib/ulid.h"
#include "supervisor/lines.h"
#include "supervisor/outbox.h"
#include "supervisor/run.h"

#define TASKS_MAX             32
#define TASKS_UNACKED_MAX     (8U << 20) /* docs/protocols.md, section 5: then the agents wait */
#define TASK_STDIN_BYTES_MAX  (4U << 20)
#define TASK_TIMEOUT_GRACE_MS 5000
#define TASK_FINISH_GRACE_MS  2000

enum task_cause {
    TASK_EXIT,
    TASK_CANCELLED,
    TASK_TIMEOUT,
    TASK_ENDED
};

struct task;

struct task_stream {
    struct task *task; /* borrowed, the task it is part of */
    struct watch watch;
    struct lines lines;
    bool is_err;
};

struct task {
    bool used;
    struct tasks *all; /* borrowed */
    struct ulid id;
    struct run run;
    struct task_stream out;
    struct task_stream err;
    struct watch input; /* the program's stdin */
    char *input_bytes;  /* owned; NULL when all is written */
    size_t input_want;  /* as `start` said */
    size_t input_have;
    size_t
        input_skip; /* of what comes next: a repeated `start` sends its input from the beginning */
    size_t input_written;
    struct outbox outbox;
    uint64_t next_seq;
    int64_t deadline_ms;  /* monotonic; 0: none */
    int64_t finish_at_ms; /* monotonic; 0: not finishing */
    int64_t drain_ms; /* monotonic: then what still holds its pipes is not waited for; 0: runs */
    enum task_cause cause;
    bool over; /* its tree is gone (or stuck) */
    bool stuck;
    bool exit_queued; /* the last record is in the outbox */
    bool forgotten;   /* acknowledged to the end; leaves when its runner has */
    bool tell_started;
};

struct tasks {
    struct loop *loop; /* borrowed */
    struct runs *runs; /* borrowed */
    struct task items[TASKS_MAX];
    bool paused;              /* too much is unacknowledged */
    void (*ended)(void *ctx); /* after a task's last record was queued */
    void *ctx;
};

void tasks_init(struct tasks *ts, struct loop *loop, struct runs *runs, void (*ended)(void *ctx),
                void *ctx);
/* The records of the control plane. ERR_INVALID, ERR_LIMIT: the message goes back to it. */
int tasks_start(struct tasks *ts, const struct record *r, struct err *e) MUST_CHECK;
int tasks_stdin(struct tasks *ts, const struct record *r, struct err *e) MUST_CHECK;
int tasks_cancel(struct tasks *ts, const struct record *r, struct err *e) MUST_CHECK;
int tasks_finish(struct tasks *ts, const struct record *r, struct err *e) MUST_CHECK;
int tasks_ack(struct tasks *ts, const struct record *r, struct err *e) MUST_CHECK;
/* Cancels all; true when none runs any more. */
bool tasks_stop(struct tasks *ts, int64_t grace_ms);
/* True when no record waits for its acknowledgement. */
bool tasks_are_acked(const struct tasks *ts);
int64_t tasks_tick(struct tasks *ts, int64_t now_ms);
/* Adds `task` fields of those known to a hello. */
void tasks_add_known(const struct tasks *ts, struct record_writer *w);
/* A new connection: everything unacknowledged goes out again. */
void tasks_rewind(struct tasks *ts);
void tasks_emit(struct tasks *ts, struct buf *out, size_t until);
