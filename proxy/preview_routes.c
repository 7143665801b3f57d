/*
 * The route table and its file state/preview/routes, which holds the same records that sandboxd
 * sends.
 *
 * Must never wait for the disk: the file is written without fsync (a torn one is thrown away at the
 * next start, and sandboxd sends everything anyway). Main thread.
 */
#include "proxy/preview_routes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/fd.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "lib/paths.h"
#include "proxy/preview_limit.h"

static const char *const state_names[] = {
    [ROUTE_ASLEEP] = "asleep",     [ROUTE_STARTING] = "starting", [ROUTE_RUNNING] = "running",
    [ROUTE_STOPPING] = "stopping", [ROUTE_FAILED] = "failed",
};

static struct {
    struct ids rows;
    struct routes_settings settings;
    struct buf settings_frame; /* as it came, for the file */
    const struct routes_events *events;
    char path[PATHS_MAX], temporary[PATHS_MAX];
    uv_timer_t save;
    bool is_known, is_syncing, is_loading;
} table;

const struct routes_settings *routes_settings_get(void)
{
    return &table.settings;
}

bool routes_are_known(void)
{
    return table.is_known;
}

struct route *routes_find(const struct ulid *id)
{
    return (struct route *)ids_find(&table.rows, id);
}

const char *route_state_name(enum route_state state)
{
    return state_names[state];
}

bool route_has_port(const struct route_ports *ports, uint16_t port)
{
    for (unsigned i = 0; i < ports->count; i++) {
        if (ports->list[i] == port) {
            return true;
        }
    }
    return false;
}

/* ---- the file ---- */

static void add_ports(struct record_writer *w, const char *key, const struct route_ports *ports)
{
    for (unsigned i = 0; i < ports->count; i++) {
        record_addn(w, key, ports->list[i]);
    }
}

static void row_save(struct ids_entry *entry, void *ctx)
{
    const struct route *r = (const struct route *)entry;
    struct record_writer w = record_begin(ctx, "route");

    record_adds(&w, "id", r->entry.id.text);
    record_addn(&w, "generation", (int64_t)r->generation);
    /* A question dies with whoever asked it. */
    record_adds(&w, "state", state_names[r->ask ? ROUTE_RUNNING : r->state]);
    add_ports(&w, "port", &r->ports);
    add_ports(&w, "open", &r->open);
    record_adds(&w, "access", r->is_private ? "private" : "public");
    record_addn(&w, "epoch", (int64_t)r->access_epoch);
    record_addn(&w, "usual_ms", r->usual_ms);
    (void)record_end(&w);
}

static int file_write(struct str content)
{
    int fd AUTOCLOSE =
        open(table.temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    while (fd >= 0 && content.len > 0) {
        ssize_t count = write(fd, content.ptr, content.len);

        if (count <= 0) {
            return -1;
        }
        content = str_cut(content, (size_t)count, content.len);
    }
    return fd >= 0 ? rename(table.temporary, table.path) : -1;
}

static void save(uv_timer_t *timer)
{
    BUF_AUTO(out, LIMIT_ROUTES_FILE_BYTES);
    struct err e;

    (void)timer;
    buf_add_str(&out, buf_str(&table.settings_frame));
    ids_each(&table.rows, row_save, &out);

    struct record_writer w = record_begin(&out, "synced");

    (void)record_end(&w);
    if (file_write(buf_str(&out)) != 0) {
        (void)err_set(&e, ERR_IO, errno, "cannot keep the route table");
        log_warn(e.msg, "file", table.path);
    }
}

static void save_later(void)
{
    if (!table.is_loading && !table.is_syncing && !uv_is_active((uv_handle_t *)&table.save)) {
        (void)uv_timer_start(&table.save, save, LIMIT_ROUTES_SAVE_MS, 0);
    }
}

/* ---- records ---- */

static void take_ports(const struct record *r, const char *key, struct route_ports *ret)
{
    struct str value;
    uint64_t port;
    size_t pos = 0;

    ret->count = 0;
    while (ret->count < LIMIT_ROUTE_PORTS && record_each_of(r, &pos, key, &value)) {
        if (str_to_u64(value, UINT16_MAX, &port) && port > 0) {
            ret->list[ret->count++] = (uint16_t)port;
        }
    }
}

static enum route_state state_of(struct str name)
{
    for (unsigned i = 0; i < ARRAY_LEN(state_names); i++) {
        if (str_is(name, state_names[i])) {
            return (enum route_state)i;
        }
    }
    return ROUTE_FAILED;
}

static struct route *row_get(const struct ulid *id)
{
    struct route *r = routes_find(id);

    if (!r && table.rows.count < LIMIT_ROUTES) {
        r = mem_alloc(sizeof(*r));
        r->entry.id = *id;
        ids_add(&table.rows, &r->entry);
    }
    return r;
}

static void take_route(const struct record *rec)
{
    struct str phase = record_get(rec, "phase");
    struct str detail = record_get(rec, "detail");
    struct ulid id;
    uint64_t number;
    struct route *r;

    if (!ulid_parse(record_get(rec, "id"), &id) || !(r = row_get(&id))) {
        return;
    }
    r->generation = record_get_u64(rec, "generation", INT64_MAX, &number) ? number : 0;
    r->usual_ms = record_get_u64(rec, "usual_ms", 86400000, &number) ? (int64_t)number : 0;
    r->state = state_of(record_get(rec, "state"));
    r->is_private = !str_is(record_get(rec, "access"), "public");
    r->access_epoch = record_get_u64(rec, "epoch", INT64_MAX, &number) ? number : 0;
    r->is_fresh = true;
    r->ask = record_get_u64(rec, "ask", INT64_MAX, &number) ? number : 0;
    take_ports(rec, "port", &r->ports);
    take_ports(rec, "open", &r->open);
    (void)snprintf(r->phase, sizeof r->phase, "%.*s", (int)(phase.len < 20 ? phase.len : 20),
                   phase.ptr ? phase.ptr : "");
    free(r->detail);
    r->detail =
        detail.len > 0
            ? mem_dup(detail.ptr, detail.len < LIMIT_TEXT_BYTES ? detail.len : LIMIT_TEXT_BYTES)
            : NULL;
    table.events->changed(r);
    save_later();
}

static void row_freed(void *p)
{
    struct route *r = p;

    free(r->detail);
    free(r);
}

/* Freed after what is queued for this turn: a check of its waiters may be among it. */
static void row_remove(struct route *r)
{
    ids_remove(&table.rows, &r->entry);
    table.events->gone(r);
    loop_later(&r->later, row_freed, r);
    save_later();
}

static void row_stale(struct ids_entry *entry, void *ctx)
{
    struct route *r = (struct route *)entry;

    (void)ctx;
    if (!r->is_fresh) {
        row_remove(r);
    }
}

static void row_unfresh(struct ids_entry *entry, void *ctx)
{
    struct route *r = (struct route *)entry;

    (void)ctx;
    r->is_fresh = false;
    r->answered = 0;
}

static void row_unask(struct ids_entry *entry, void *ctx)
{
    struct route *r = (struct route *)entry;

    (void)ctx;
    if (r->ask != 0) {
        r->ask = 0;
        r->state = ROUTE_RUNNING;
        table.events->changed(r);
    }
}

void routes_forget_asks(void)
{
    ids_each(&table.rows, row_unask, NULL);
}

static void take_gone(const struct record *rec)
{
    struct ulid id;
    struct route *r;

    if (ulid_parse(record_get(rec, "id"), &id) && (r = routes_find(&id))) {
        row_remove(r);
    }
}

/* False, and nothing changed, for none and for one that is too long. */
static bool take_name(struct str name, char ret[256])
{
    if (name.len == 0 || name.len >= 256) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];

        ret[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    ret[name.len] = '\0';
    return true;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_key(struct str hex, uint8_t ret[CRYPTO_KEY_BYTES])
{
    if (hex.len != 2 * CRYPTO_KEY_BYTES) {
        return false;
    }
    for (size_t i = 0; i < CRYPTO_KEY_BYTES; i++) {
        int high = digit_of(hex.ptr[2 * i]);
        int low = digit_of(hex.ptr[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        ret[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

/* Everything but the hashes of tokens is kept: private previews go on while sandboxd is away. */
static void keep_settings(const struct record *rec)
{
    static const char *const kept[] = {
        "preview_domain",  "console_host", "tls", "pass_key", "wakes_per_minute_per_client",
        "wakes_per_minute"};

    buf_reset(&table.settings_frame);

    struct record_writer w = record_begin(&table.settings_frame, "settings");

    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        struct str value = record_get(rec, kept[i]);

        if (value.ptr) {
            record_add(&w, kept[i], value);
        }
    }
    (void)record_end(&w);
}

static void take_settings(const struct record *rec)
{
    struct routes_settings *s = &table.settings;
    uint64_t number;

    s->is_known = take_name(record_get(rec, "preview_domain"), s->domain) || s->is_known;
    (void)take_name(record_get(rec, "console_host"), s->console_host);
    s->is_tls = record_get_bool(rec, "tls", false);
    s->has_pass_key = take_key(record_get(rec, "pass_key"), s->pass_key);
    s->wakes_per_client =
        record_get_u64(rec, "wakes_per_minute_per_client", UINT32_MAX, &number) ? number : 0;
    s->wakes_per_minute = record_get_u64(rec, "wakes_per_minute", UINT32_MAX, &number) ? number : 0;
    limit_set(s->wakes_per_client, s->wakes_per_minute);
    keep_settings(rec);
    save_later();
}

static void take_synced(void)
{
    ids_each(&table.rows, row_stale, NULL);
    table.is_known = true;
    table.is_syncing = false;
    save_later();
}

void routes_begin(void)
{
    table.is_syncing = true;
    ids_each(&table.rows, row_unfresh, NULL);
}

bool routes_take(const struct record *r)
{
    if (record_is(r, "route")) {
        take_route(r);
    } else if (record_is(r, "gone")) {
        take_gone(r);
    } else if (record_is(r, "settings")) {
        take_settings(r);
    } else if (record_is(r, "synced")) {
        take_synced();
    } else {
        return false;
    }
    return true;
}

/* ---- start ---- */

/* A file that was cut short has no `synced` at its end and counts for nothing. */
static void load(void)
{
    char *text AUTOFREE = NULL;
    struct buf in = {0};
    struct record r;
    struct str frame;
    size_t len = 0;
    struct err e;

    if (fd_read_file(table.path, LIMIT_ROUTES_FILE_BYTES, &text, &len, &e) != 0) {
        if (e.code != ERR_NOT_FOUND) {
            log_warn("cannot read the kept route table", "why", e.msg);
        }
        return;
    }
    in = (struct buf){.ptr = text, .len = len, .cap = len, .max = len};
    table.is_loading = true;
    while (record_next(&in, &frame, &e) == 1 && record_parse(frame, &r, &e) == 0 &&
           routes_take(&r)) {
        size_t used = (size_t)(frame.ptr - in.ptr) + frame.len;

        in.ptr += used;
        in.len -= used;
    }
    table.is_loading = false;
    if (!table.is_known) {
        log_warn("the kept route table is not whole; waiting for sandboxd", "file", table.path);
    }
}

void routes_init(const char *data_dir, const struct routes_events *events)
{
    ids_init(&table.rows);
    table.events = events;
    buf_init(&table.settings_frame, 4096);
    (void)uv_timer_init(loop_get(), &table.save);
    (void)paths_join(table.path, data_dir, "state/preview/routes");
    (void)paths_join(table.temporary, data_dir, "state/preview/routes.new");
    load();
}
