/*
 * Tasks: queue, the supervisors' channel, agent adapters, event log.
 */
#pragma once

#include "control/config.h"
#include "control/store/tasks.h"
#include "control/task/agent.h"
#include "lib/buf.h"
#include "lib/err.h"
#include "lib/ulid.h"

struct db;
struct sandbox_service;
struct vault;
struct task_service;

#define TASK_PROMPT_BYTES_MAX  (256 * 1024)
#define TASK_TIMEOUT_S_DEFAULT 1800
#define TASK_TIMEOUT_S_MAX     86400
#define TASK_KEY_BYTES         40

/* Key of a task's events for http_kick: "task:<id>". */
void task_key(const struct ulid *id, char key[TASK_KEY_BYTES]);

/* Sets the sandbox service's channel hooks; threads: channel (all control sockets), gate (peer
 * checks), scheduler. */
int task_service_start(const struct config *config, struct db *db,
                       struct sandbox_service *sandboxes, struct vault *vault,
                       struct task_service **ret, struct err *e) MUST_CHECK;
/* Picks up the open tasks of the last run; after sandbox_service_run. */
void task_service_resume(struct task_service *s);
void task_service_stop(struct task_service *take_service);

struct task_order {
    struct ulid app_id;
    struct ulid sandbox_id;
    const char *prompt;
    const char *agent;       /* "" : default */
    const char *model;       /* "" : the agent's default, or the free one */
    int64_t timeout_s;       /* 0: default */
    int64_t budget_microusd; /* 0: the installation's default; so is the next */
    int64_t budget_tokens;
    const char *actor;
};

/* Checks agent, key and model before anything is woken, stores it queued and tells the scheduler.
 * ERR_INVALID; tagged agent_not_connected. */
int task_submit(struct task_service *s, const struct task_order *order, struct ulid *ret_id,
                struct err *e) MUST_CHECK;
/* Asks for the end; a queued one is cancelled at once. Repeating is fine; a task that is over stays
 * as it is. ERR_NOT_FOUND. */
int task_cancel(struct task_service *s, const struct ulid *id, struct err *e) MUST_CHECK;
/* Cancels what is open in a sandbox (before it is deleted). */
void task_cancel_all(struct task_service *s, const struct ulid *sandbox_id);
/* Is a task running or queued there. */
bool task_busy(struct task_service *s, const struct ulid *sandbox_id, struct ulid *ret_task);
