/*
 * Walls. The thread "walls" and every caller of walls_require run what is here, one at a time
 * behind the lock.
 */
#include "engine/walls.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/netlink.h"
#include "engine/nft.h"
#include "engine/ruleset.h"
#include "lib/buf.h"
#include "lib/fd.h"
#include "lib/mem.h"
#include "lib/thread.h"

#define CHECK_INTERVAL_MS 1000
/* While changes of nftables are told: what is left to see is a change of the host's resolvers. */
#define WATCHED_INTERVAL_MS 15000
#define LOAD_TRIES          5
#define RESOLV_BYTES_MAX    65536
#define BRIDGES_BYTES_MAX   16384
#define BRIDGE_FILTER_PATH  "/proc/sys/net/bridge/bridge-nf-call-iptables"

static const char *const resolv_paths[] = {"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"};

struct walls {
    const struct config *config; /* borrowed */
    pthread_t thread;
    int wake_fd; /* it is to stop, or bridges came or went */
    atomic_bool is_stopping;
    pthread_mutex_t lock; /* guards all below */
    char *bridges;        /* owned; never NULL */
    char *wanted;         /* owned: the batch that was loaded, or NULL */
    char *listed;         /* owned: how the kernel lists it, or NULL */
    uint32_t generation;  /* of nftables when that listing was true */
    enum walls_state state;
    struct err why;
};

struct walls *walls_new(const struct config *config)
{
    struct walls *w = mem_alloc(sizeof(*w));
    w->config = config;
    w->bridges = mem_strdup("");
    w->wake_fd = -1;
    w->state = config->walls_on ? WALLS_FAILED : WALLS_OFF;
    (void)err_set(&w->why, ERR_UNAVAILABLE, 0, "walls: not loaded yet");
    (void)pthread_mutex_init(&w->lock, NULL);
    return w;
}

void walls_free(struct walls *w)
{
    if (!w) {
        return;
    }
    free(w->bridges);
    free(w->wanted);
    free(w->listed);
    if (w->wake_fd >= 0) {
        (void)close(w->wake_fd);
    }
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
}

static int walls_list(struct walls *w, char **ret_text, struct err *e)
{
    char command[64];
    (void)snprintf(command, sizeof(command), "list table inet %s", w->config->table);
    return nft_run(command, ret_text, e);
}

/* What the table must be now: the resolvers may have changed since the last look. Caller frees. */
static char *walls_render(const struct walls *w)
{
    BUF_AUTO(text, RULESET_BYTES_MAX);
    struct ruleset rules = {.table = w->config->table,
                            .bridge = w->config->bridge,
                            .allow = &w->config->allow,
                            .other_bridges = w->bridges};
    for (size_t i = 0; i < w->config->dns_count; i++) {
        ruleset_add_resolver(&rules, &w->config->dns[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(resolv_paths); i++) {
        char *resolv AUTOFREE = NULL;
        size_t len = 0;
        if (fd_read_file(resolv_paths[i], RESOLV_BYTES_MAX, &resolv, &len, NULL) == 0) {
            ruleset_add_resolvers(&rules, str_n(resolv, len));
        }
    }
    ruleset_write(&rules, &text);
    return buf_take(&text);
}

/* Two sandboxes meet on the bridge below IP: only with this do frames pass the table (and Docker's
 * own rule). */
static int walls_check_bridge_filter(struct err *e)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;
    if (fd_read_file(BRIDGE_FILTER_PATH, 16, &text, &len, NULL) == 0 &&
        str_is(str_trim(str_n(text, len)), "1")) {
        return 0;
    }
    return err_set(e, ERR_UNAVAILABLE, 0,
                   "walls: traffic from sandbox to sandbox would not be filtered: run modprobe "
                   "br_netfilter and sysctl -w net.bridge.bridge-nf-call-iptables=1");
}

/* Loads the batch and lists it. 1: the listing is of what was loaded. 0: somebody flushed the table
 * in between. */
static int walls_load_once(struct walls *w, const char *wanted, char **ret_listed,
                           uint32_t *ret_generation, struct err *e)
{
    char *listed AUTOFREE = NULL;
    /* The generation comes before the listing: whatever changes after it is seen at the next look.
     */
    if (nft_run(wanted, NULL, e) < 0 || netlink_generation(ret_generation, e) < 0) {
        return -1;
    }
    if (walls_list(w, &listed, e) < 0 || !ruleset_is_listed(str_of(wanted), str_of(listed))) {
        return 0;
    }
    *ret_listed = TAKE(listed);
    return 1;
}

/* Loads the wanted batch and keeps how the kernel lists it. Under the lock. */
static int walls_load(struct walls *w, char *take_wanted, struct err *e)
{
    char *wanted AUTOFREE = take_wanted;
    char *listed = NULL;
    uint32_t generation = 0;
    int loaded = 0;
    for (int i = 0; i < LOAD_TRIES && loaded == 0; i++) {
        loaded = walls_load_once(w, wanted, &listed, &generation, e);
    }
    if (loaded == 0) {
        return err_set(e, ERR_UNAVAILABLE, 0,
                       "walls: the table %s does not stay as it is loaded: something on this host "
                       "removes it",
                       w->config->table);
    }
    if (loaded < 0) {
        return -1;
    }
    free(w->wanted);
    free(w->listed);
    w->wanted = TAKE(wanted);
    w->listed = listed;
    w->generation = generation;
    return 0;
}

/* 1: the table stands as it was loaded, 0: it does not. -1: cannot be told. Under the lock. */
static int walls_stands(struct walls *w, const char *wanted, struct err *e)
{
    uint32_t generation = 0;
    char *listed AUTOFREE = NULL;
    if (!w->wanted || strcmp(w->wanted, wanted) != 0) {
        return 0;
    }
    if (netlink_generation(&generation, e) < 0) {
        return -1;
    }
    if (generation == w->generation) {
        return 1;
    }
    if (walls_list(w, &listed, NULL) < 0 || !listed || strcmp(listed, w->listed) != 0) {
        return 0;
    }
    w->generation = generation;
    return 1;
}

/* Brings the table to what it must be. Under the lock. */
static int walls_repair(struct walls *w, struct err *e)
{
    char *wanted AUTOFREE = walls_render(w);
    bool had = w->wanted != NULL;
    bool is_other = had && strcmp(w->wanted, wanted) != 0;
    int stands = walls_stands(w, wanted, e);
    if (stands < 0 || (stands == 0 && walls_load(w, TAKE(wanted), e) < 0)) {
        return -1;
    }
    if (stands == 0 && (!had || is_other)) {
        log_info("walls: loaded", "table", w->config->table);
    } else if (stands == 0) {
        log_warn("walls: somebody changed the table, it was put back", "table", w->config->table);
    }
    return walls_check_bridge_filter(e);
}

/* Repairs and keeps the outcome. Under the lock. */
static void walls_update(struct walls *w)
{
    struct err why = {0};
    enum walls_state before = w->state;
    if (!w->config->walls_on) {
        return;
    }
    if (walls_repair(w, &why) == 0) {
        w->state = WALLS_UP;
        return;
    }
    bool is_news = before != WALLS_FAILED || strcmp(w->why.msg, why.msg) != 0;
    w->state = WALLS_FAILED;
    w->why = why;
    w->why.code = ERR_UNAVAILABLE;
    if (is_news) {
        log_error("no sandbox starts", "error", why.msg);
    }
}

enum walls_state walls_state_get(struct walls *w, struct err *ret_why)
{
    LOCK_GUARD(&w->lock);
    *ret_why = w->why;
    return w->state;
}

int walls_require(struct walls *w, struct err *e)
{
    LOCK_GUARD(&w->lock);
    walls_update(w);
    if (w->state == WALLS_FAILED) {
        *e = w->why;
        return err_tag(e, "walls_down");
    }
    return 0;
}

static void walls_wake(struct walls *w)
{
    uint64_t one = 1;
    (void)!write(w->wake_fd, &one, sizeof(one));
}

void walls_set_bridges(struct walls *w, const char *elements)
{
    LOCK_GUARD(&w->lock);
    if (strcmp(w->bridges, elements) != 0 && strlen(elements) < BRIDGES_BYTES_MAX) {
        free(w->bridges);
        w->bridges = mem_strdup(elements);
        walls_wake(w);
    }
}

static void *walls_run(void *ctx)
{
    struct walls *w = ctx;
    int watch AUTOCLOSE = -1;
    uint64_t ignored = 0;
    struct err e;
    if (netlink_watch_open(&watch, &e) < 0) {
        log_warn("walls: changes are seen by the check of every second only", "error", e.msg);
    }
    while (!atomic_load(&w->is_stopping)) {
        /* poll ignores a negative descriptor. */
        struct pollfd fds[] = {{.fd = w->wake_fd, .events = POLLIN},
                               {.fd = watch, .events = POLLIN}};
        (void)poll(fds, ARRAY_LEN(fds), watch >= 0 ? WATCHED_INTERVAL_MS : CHECK_INTERVAL_MS);
        (void)!read(w->wake_fd, &ignored, sizeof(ignored));
        if (fds[1].revents) {
            netlink_watch_drain(watch);
        }
        LOCK_GUARD(&w->lock);
        walls_update(w);
    }
    return NULL;
}

int walls_remove(const struct config *config, struct err *e)
{
    char batch[160];
    (void)snprintf(batch, sizeof(batch), "add table inet %s\ndelete table inet %s\n", config->table,
                   config->table);
    return nft_run(batch, NULL, e);
}

void walls_start(struct walls *w)
{
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!w->config->walls_on) {
        /* The owner's word also takes down what stands from before. */
        struct err ignored;
        (void)!walls_remove(w->config, &ignored);
        log_warn("walls: off by SANDBOXD_WALLS; sandboxes reach this host, one another and "
                 "private networks");
        return;
    }
    {
        LOCK_GUARD(&w->lock);
        walls_update(w);
    }
    w->thread = thread_start("walls", walls_run, w);
}

void walls_stop(struct walls *w)
{
    atomic_store(&w->is_stopping, true);
    if (w->config->walls_on) {
        walls_wake(w);
        (void)pthread_join(w->thread, NULL);
    }
}
