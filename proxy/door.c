/*
 * Doors: one listener per sandbox directory.
 *
 * Must never believe a connection about which sandbox it is: the directory it came through says
 * that. Main thread.
 *
 * The parent directory is watched with inotify; a scan at start, after trouble and every few
 * seconds finds what a lost event hid (libuv does not report an overflow of the queue).
 */
#include "proxy/door.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "lib/fd.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/paths.h"
#include "proxy/ids.h"
#include "proxy/limits.h"

#define DOOR_BACKLOG 512

struct door {
    struct ids_entry entry; /* first: the table's */
    uv_pipe_t listener;
    unsigned greeting;
    bool seen, gone, closed;
    void *data;
};

/* A connection that has not said hello yet. */
struct greeting {
    struct door *door;
    struct wire *wire;
    struct buf in;
    struct loop_deadline deadline;
    struct loop_later later;
    bool over;
};

static struct {
    char dir[PATHS_MAX];
    const char *data_dir, *role;
    const struct door_events *events;
    struct ids table;
    uv_fs_event_t watch;
    uv_timer_t rescan;
    ino_t inode; /* of the directory that is watched */
    bool is_watching, said_missing, wants_retry;
} doors;

const struct ulid *door_id(const struct door *door)
{
    return &door->entry.id;
}

void door_set_data(struct door *door, void *data)
{
    door->data = data;
}

void *door_data(const struct door *door)
{
    return door->data;
}

struct door *door_find(const struct ulid *id)
{
    return (struct door *)ids_find(&doors.table, id);
}

void door_hello(struct buf *out)
{
    struct record_writer w = record_begin(out, "hello");

    record_addn(&w, "protocol", RECORD_PROTOCOL);
    (void)record_end(&w);
}

/* ---- a new connection ---- */

static void greeting_freed(void *p)
{
    struct greeting *g = p;

    buf_done(&g->in);
    free(g);
}

/* A door lives until its listener is closed and nobody who came through it is still to say hello.
 */
static void door_release(struct door *door)
{
    if (door->closed && door->greeting == 0) {
        free(door);
    }
}

static void greeting_over(struct greeting *g)
{
    if (g->over) {
        return;
    }
    g->over = true;
    g->door->greeting--;
    door_release(g->door);
    loop_deadline_clear(&g->deadline);
    loop_later(&g->later, greeting_freed, g);
}

static void greeting_refuse(struct greeting *g, const char *why)
{
    BUF_AUTO(answer, 1024);
    struct err e;

    if (why) {
        (void)err_set(&e, ERR_PROTOCOL, 0, "%s", why);
        record_add_error(&answer, &e);
        struct str bytes = buf_str(&answer);

        wire_write(g->wire, &bytes, 1);
    }
    wire_close(g->wire);
    greeting_over(g);
}

static void greeting_late(void *ctx)
{
    greeting_refuse(ctx, NULL);
}

static void greeting_hello(struct greeting *g, struct str frame)
{
    struct record hello;
    uint64_t protocol = 0;
    struct err e;

    if (record_parse(frame, &hello, &e) != 0) {
        greeting_refuse(g, e.msg);
        return;
    }
    if (!record_is(&hello, "hello") || !record_get_u64(&hello, "protocol", UINT32_MAX, &protocol) ||
        protocol != RECORD_PROTOCOL) {
        greeting_refuse(g, "expected hello with protocol 1");
        return;
    }
    struct str rest =
        str_cut(buf_str(&g->in), (size_t)(frame.ptr - g->in.ptr) + frame.len, g->in.len);

    wire_read(g->wire, false);
    wire_attach(g->wire, NULL, NULL);
    doors.events->connected(g->door, &hello, g->wire, rest);
    greeting_over(g);
}

static void greeting_data(void *ctx, struct str bytes)
{
    struct greeting *g = ctx;
    struct str frame;
    struct err e;
    int whole;

    if (g->door->gone) {
        greeting_refuse(g, NULL);
        return;
    }
    buf_add_str(&g->in, bytes);
    whole = record_next(&g->in, &frame, &e);
    if (whole == 1) {
        greeting_hello(g, frame);
    } else if (whole < 0 || g->in.len > LIMIT_DOOR_RECORD_BYTES || !buf_ok(&g->in)) {
        greeting_refuse(g, whole < 0 ? e.msg : "hello is too long");
    }
}

static void greeting_ended(void *ctx, int status)
{
    (void)status;
    greeting_refuse(ctx, NULL);
}

static const struct wire_events greeting_events = {.data = greeting_data, .ended = greeting_ended};

static void door_accept(uv_stream_t *listener, int status)
{
    struct door *door = listener->data;
    struct wire *wire = status == 0 ? wire_accept(listener) : NULL;

    if (!wire) {
        return;
    }
    if (door->greeting >= LIMIT_DOOR_GREETING) {
        wire_close(wire);
        return;
    }
    struct greeting *g = mem_alloc(sizeof(*g));

    door->greeting++;
    g->door = door;
    g->wire = wire;
    buf_init(&g->in, LIMIT_DOOR_RECORD_BYTES + LIMIT_READ_BYTES);
    loop_deadline_set(&g->deadline, LIMIT_DOOR_HELLO_MS, greeting_late, g);
    wire_attach(wire, &greeting_events, g);
    wire_read(wire, true);
}

/* ---- directories ---- */

static void door_closed(uv_handle_t *handle)
{
    struct door *door = handle->data;

    door->closed = true;
    door_release(door);
}

static void door_close(struct door *door)
{
    door->gone = true;
    ids_remove(&doors.table, &door->entry);
    doors.events->gone(door);
    log_debug("door closed", "sandbox", door->entry.id.text);
    uv_close((uv_handle_t *)&door->listener, door_closed);
}

static void door_open(const struct ulid *id)
{
    char path[PATHS_MAX];
    struct err e;
    int fd;

    if (doors.table.count >= LIMIT_DOORS) {
        return;
    }
    (void)paths_door_socket(path, doors.data_dir, doors.role, id);
    if (fd_unix_listen(path, 0666, (uid_t)-1, (gid_t)-1, DOOR_BACKLOG, &fd, &e) != 0) {
        /* sandboxd makes the directory first and gives it to us a moment later. */
        log_debug("door not ready yet", "sandbox", id->text, "why", e.msg);
        doors.wants_retry = true;
        return;
    }
    struct door *door = mem_alloc(sizeof(*door));

    door->entry.id = *id;
    door->seen = true;
    (void)fd_set_nonblock(fd);
    (void)uv_pipe_init(loop_get(), &door->listener, 0);
    door->listener.data = door;
    (void)uv_pipe_open(&door->listener, fd);
    if (uv_listen((uv_stream_t *)&door->listener, DOOR_BACKLOG, door_accept) < 0) {
        uv_close((uv_handle_t *)&door->listener, door_closed);
        doors.wants_retry = true;
        return;
    }
    ids_add(&doors.table, &door->entry);
    log_debug("door open", "sandbox", id->text);
}

static bool is_directory(const struct ulid *id)
{
    char path[PATHS_MAX];
    struct stat st;

    (void)paths_door(path, doors.data_dir, doors.role, id);
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void door_check(const struct ulid *id)
{
    struct door *door = door_find(id);
    bool wanted = is_directory(id);

    if (wanted && !door) {
        door_open(id);
    } else if (!wanted && door) {
        door_close(door);
    }
}

static void door_unseen(struct ids_entry *entry, void *ctx)
{
    struct door *door = (struct door *)entry;

    (void)ctx;
    if (!door->seen) {
        door_close(door);
    }
    door->seen = false;
}

static void doors_scan(void)
{
    DIR *dir = opendir(doors.dir);
    const struct dirent *d;
    struct ulid id;

    if (!dir) {
        doors.wants_retry = true;
        return;
    }
    while ((d = readdir(dir))) {
        if (!ulid_parse(str_of(d->d_name), &id)) {
            continue;
        }
        struct door *door = door_find(&id);

        if (door) {
            door->seen = is_directory(&id);
        } else if (is_directory(&id)) {
            door_open(&id);
        }
    }
    (void)closedir(dir);
    ids_each(&doors.table, door_unseen, NULL);
}

static void doors_later(void);

static void watch_event(uv_fs_event_t *watch, const char *name, int events, int status)
{
    struct ulid id;

    (void)watch;
    (void)events;
    if (status < 0 || !name) {
        doors_scan();
    } else if (ulid_parse(str_of(name), &id)) {
        door_check(&id);
    } else {
        doors.wants_retry = true; /* the directory itself went */
    }
    doors_later();
}

/* A directory that was made anew has another inode; the watch is on the old one. */
static bool doors_are_watched(void)
{
    struct stat st;

    if (!doors.is_watching) {
        return false;
    }
    if (stat(doors.dir, &st) == 0 && st.st_ino == doors.inode) {
        return true;
    }
    doors.is_watching = false;
    (void)uv_fs_event_stop(&doors.watch);
    return false;
}

static void doors_start(void)
{
    struct stat st;
    int status;

    if (doors_are_watched()) {
        return;
    }
    status = uv_fs_event_start(&doors.watch, watch_event, doors.dir, 0);
    if (status < 0) {
        if (!doors.said_missing) {
            doors.said_missing = true;
            log_warn("waiting for a directory that sandboxd makes", "directory", doors.dir, "why",
                     uv_strerror(status));
        }
        doors.wants_retry = true;
        return;
    }
    if (doors.said_missing) {
        log_info("the directory is there now", "directory", doors.dir);
    }
    doors.is_watching = true;
    doors.said_missing = false;
    doors.inode = stat(doors.dir, &st) == 0 ? st.st_ino : 0;
}

static void rescan(uv_timer_t *timer)
{
    (void)timer;
    doors.wants_retry = false;
    doors_start();
    doors_scan();
    doors_later();
}

static void doors_later(void)
{
    uint64_t delay = doors.wants_retry ? LIMIT_DOOR_RETRY_MS : LIMIT_DOOR_RESCAN_MS;

    (void)uv_timer_start(&doors.rescan, rescan, delay, 0);
}

void door_watch(const char *data_dir, const char *role, const struct door_events *events)
{
    doors.data_dir = data_dir;
    doors.role = role;
    doors.events = events;
    (void)paths_join(doors.dir, data_dir, str_is(str_of(role), "in") ? "run/in" : "run/out");
    ids_init(&doors.table);
    (void)uv_fs_event_init(loop_get(), &doors.watch);
    (void)uv_timer_init(loop_get(), &doors.rescan);
    rescan(&doors.rescan);
}
