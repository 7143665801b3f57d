/*
 * Inside of the channel; private to its files. Doors and links belong to the channel's thread
 * alone.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "control/task/channel.h"

#define CHANNEL_PING_MS    15000
#define CHANNEL_PONG_MS    5000
#define CHANNEL_HELLO_MS   10000
#define CHANNEL_CHECKS_MAX 4 /* of one sandbox at a time */
#define CHANNEL_REFUSED_WAIT_MS                                      \
    200 /* a door that was knocked at by others opens again after it \
         */
#define CHANNEL_REFUSED_EVENT_MS 60000          /* one event a minute and sandbox */
#define CHANNEL_IN_BYTES         (160UL * 1024) /* two whole frames and some */
#define CHANNEL_OUT_BYTES_MAX    (4UL * 1024 * 1024)
#define CHANNEL_WAITING_MAX      (1024UL * 1024) /* not yet consumed */

enum watch_kind {
    WATCH_WAKE,
    WATCH_DOOR,
    WATCH_LINK
};

struct watch {
    enum watch_kind kind; /* first member of what epoll points to */
};

enum link_state {
    LINK_CHECKING,
    LINK_GREETING,
    LINK_UP,
    LINK_DEAD
};

struct door {
    struct watch watch;
    struct door *next;
    struct ulid id;
    int fd; /* owned; -1 when closed */
    int checks;
    int64_t paused_until_ms; /* 0: open */
    int64_t refused_event_ms;
    uint64_t up; /* serial of the link of PID 1, 0: none */
};

struct link {
    struct watch watch;
    struct link *next;
    uint64_t serial;
    struct ulid id;
    int fd; /* owned */
    enum link_state state;
    struct buf in;
    struct buf out;
    size_t waiting;  /* bytes handed to the sink and not consumed */
    uint32_t events; /* what epoll watches for */
    int64_t due_ms;  /* hello deadline, next ping or pong deadline */
    bool pinged;
    uint64_t ping;
};

enum command_kind {
    COMMAND_LISTEN,
    COMMAND_CLOSE,
    COMMAND_DROP,
    COMMAND_SEND,
    COMMAND_TELL,
    COMMAND_CHECKED,
    COMMAND_CONSUMED,
};

struct command {
    struct command *next;
    enum command_kind kind;
    struct ulid id;
    uint64_t serial;
    int fd;         /* LISTEN: owned */
    bool forbidden; /* CHECKED: another process */
    bool good;      /* CHECKED: PID 1 */
    size_t bytes;   /* CONSUMED */
    char *frames;   /* SEND, TELL: owned */
    size_t frames_len;
};

struct gate_job {
    struct gate_job *next;
    struct ulid id;
    uint64_t serial;
    int fd; /* owned duplicate */
};

struct channel_name {
    struct channel_name *next;
    struct ulid id;
};

struct channel {
    struct sandbox_service *sandboxes;
    struct db *db;
    const char *data_dir;
    struct channel_sink sink;
    int epoll_fd;
    int wake_fd;
    struct watch wake;
    atomic_bool stopping;
    pthread_t thread;
    pthread_t gate;

    pthread_mutex_t lock; /* down to gate_work */
    struct command *first;
    struct command *last;
    struct channel_name *listening; /* so that listen can be repeated */
    struct gate_job *gate_first;
    struct gate_job *gate_last;
    pthread_cond_t gate_work;

    struct door *doors; /* the thread's own from here on */
    struct link *links;
    uint64_t next_serial;
    int64_t due_ms;
    bool dirty; /* something died in this turn */
};

/* channel.c */
void channel_post(struct channel *c, struct command *take_command);
struct door *channel_door(struct channel *c, const struct ulid *id);
void channel_due(struct channel *c, int64_t at_ms);
/* gate.c */
void *gate_run(void *channel);
void gate_ask(struct channel *c, const struct link *link);
void gate_stop(struct channel *c);
/* link.c */
void link_accept(struct channel *c, struct door *door);
void link_checked(struct channel *c, struct link *link, bool good);
void link_event(struct channel *c, struct link *link, uint32_t events);
void link_send(struct channel *c, struct link *link, const char *bytes, size_t len);
void link_consumed(struct channel *c, struct link *link, size_t bytes);
void link_tick(struct channel *c, struct link *link, int64_t now_ms);
/* Closes it and tells who has to know. Freed at the end of the turn. */
void link_end(struct channel *c, struct link *link);
