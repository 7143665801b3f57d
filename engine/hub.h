/*
 * Hub: events of containers and of Docker itself, handed to every connection that follows. Any
 * thread.
 *
 * A follower that does not keep up loses its connection, not events in silence: it connects anew
 * and asks for the whole list.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/cgroup.h"
#include "lib/err.h"
#include "lib/ulid.h"

#define HUB_QUEUE_MAX 256

enum hub_kind {
    HUB_START,
    HUB_DIE,
    HUB_OOM,
    HUB_DESTROY,
    HUB_DOCKER
};

struct hub_event {
    enum hub_kind kind;
    struct ulid id;          /* not for HUB_DOCKER */
    int64_t exit_code;       /* HUB_DIE */
    enum cgroup_kill killed; /* HUB_DIE */
    int64_t at_ms;
    bool is_up;      /* HUB_DOCKER */
    char error[256]; /* HUB_DOCKER, "" when up */
};

struct hub;
struct hub_follower;

struct hub *hub_new(void);
void hub_free(struct hub *h);

/* Gives an event to every follower. Whether Docker is up is remembered; the same word twice is said
 * once. Never blocks. */
void hub_publish(struct hub *h, const struct hub_event *event);

/* A new follower; its first event says whether Docker is up. Never NULL. */
struct hub_follower *hub_join(struct hub *h);
void hub_leave(struct hub *h, struct hub_follower *take_f);
/* Readable when hub_next has something to say. Borrowed. */
int hub_follower_fd(const struct hub_follower *f);
/* 1 and the next event, 0 when there is none now, -1 when events were lost. */
int hub_next(struct hub *h, struct hub_follower *f, struct hub_event *ret);
