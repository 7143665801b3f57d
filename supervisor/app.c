/*
 * The app of this sandbox. It must never wait, and never stop what runs because a file cannot be
 * read. One thread: PID 1's.
 */
#include "supervisor/app.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/mem.h"
#include "supervisor/app_config.h"
#include "supervisor/environ.h"
#include "supervisor/seed.h"
#include "supervisor/settings.h"
#include "supervisor/spawn.h"

#define APP_LOOK_MS         1000
#define APP_SEED_TAIL_BYTES 300
#define APP_MANIFEST        SEED_APP "/sandbox.yaml"
#define APP_PACKAGE         SEED_APP "/package.json"

static const char *const app_files[2] = {APP_MANIFEST, APP_PACKAGE};

static void app_changed(void *ctx)
{
    struct app *a = ctx;

    a->stale = true;
}

/* ---- settings ---- */

static uint16_t app_web_port(const struct app *a)
{
    if (a->manifest_port != 0) {
        return a->manifest_port;
    }
    return a->settings.web_port != 0 ? a->settings.web_port : APP_PORT_DEFAULT;
}

static char **app_make_env(void *ctx, const struct process *p)
{
    struct app *a = ctx;
    struct environ_options options = {
        .base = a->env,
        .settings = (const char *const *)a->settings.env,
        .config = (const char *const *)a->settings.config.vars,
        .secrets = (const char *const *)a->settings.config.secrets,
        .port = p->is_web ? app_web_port(a) : 0,
    };

    return environ_build(&options);
}

void app_init(struct app *a, struct loop *loop, struct runs *runs, const char *boot_id,
              const char *const *env)
{
    *a = (struct app){.loop = loop,
                      .runs = runs,
                      .boot_id = boot_id,
                      .env = env,
                      .seed_output = WATCH_NONE,
                      .phase = APP_STARTING,
                      .phase_dirty = true};
    a->world = (struct process_world){.runs = runs,
                                      .loop = loop,
                                      .app_dir = SEED_APP,
                                      .make_env = app_make_env,
                                      .changed = app_changed,
                                      .ctx = a};
    a->seed.control = WATCH_NONE;
    for (size_t i = 0; i < APP_PROCESSES_MAX; i++) {
        a->processes[i].output = WATCH_NONE;
        a->processes[i].run.control = WATCH_NONE;
    }
    portwatch_init(&a->ports, app_changed, a);
}

/* ---- processes ---- */

static struct process *app_find(struct app *a, const char *name)
{
    for (size_t i = 0; i < APP_PROCESSES_MAX; i++) {
        struct process *p = &a->processes[i];

        if (p->used && !p->removed && strcmp(p->name, name) == 0) {
            return p;
        }
    }
    return NULL;
}

static struct process *app_web(struct app *a)
{
    return app_find(a, "web");
}

static void app_want(struct app *a, const struct manifest_process *spec, bool is_web, bool anew)
{
    struct process *p = app_find(a, spec->name);

    if (p) {
        bool differs = process_update(p, spec);

        process_event(p, differs || anew ? MACHINE_RESTART : MACHINE_START);
        return;
    }
    for (size_t i = 0; i < APP_PROCESSES_MAX && !p; i++) {
        p = a->processes[i].used ? NULL : &a->processes[i];
    }
    if (p) {
        process_init(p, &a->world, spec, is_web);
        process_event(p, MACHINE_START);
    }
}

static bool manifest_wants(const struct manifest *m, const char *name)
{
    if (strcmp(name, "web") == 0) {
        return m->web.command != NULL;
    }
    for (size_t i = 0; i < m->worker_count; i++) {
        if (strcmp(m->workers[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void app_drop_unwanted(struct app *a, const struct manifest *m)
{
    for (size_t i = 0; i < APP_PROCESSES_MAX; i++) {
        struct process *p = &a->processes[i];

        if (p->used && !p->removed && !manifest_wants(m, p->name)) {
            p->removed = true;
            process_stop(p, PROCESS_STOP_GRACE_MS);
        }
    }
}

/* Frees the places of processes that were removed and are over. */
static void app_collect(struct app *a)
{
    for (size_t i = 0; i < APP_PROCESSES_MAX; i++) {
        struct process *p = &a->processes[i];

        if (p->used && p->removed && !run_is_active(&p->run)) {
            process_done(p);
        }
    }
}

static void app_declare(struct app *a)
{
    bool has_web = app_web(a) != NULL;

    portwatch_declare(&a->ports, a->settings.ports, a->settings.port_count,
                      has_web || a->settings.web_port != 0 ? app_web_port(a) : 0);
}

static void app_apply(struct app *a, const struct manifest *m, bool anew)
{
    uint16_t port_before = app_web_port(a);

    a->manifest_port = m->web_port;
    app_drop_unwanted(a, m);
    if (m->web.command) {
        app_want(a, &m->web, true, anew || app_web_port(a) != port_before);
    }
    for (size_t i = 0; i < m->worker_count; i++) {
        app_want(a, &m->workers[i], false, anew);
    }
    app_declare(a);
    app_changed(a);
}

/* ---- the manifest ---- */

static struct app_file app_look_at(const char *path)
{
    struct stat info;

    if (lstat(path, &info) != 0) {
        return (struct app_file){0};
    }
    return (struct app_file){
        .exists = true,
        .mtime_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec,
        .size = info.st_size,
        .inode = info.st_ino,
    };
}

static bool app_file_same(const struct app_file *a, const struct app_file *b)
{
    return a->exists == b->exists && a->mtime_ns == b->mtime_ns && a->size == b->size &&
           a->inode == b->inode;
}

/* A regular file of the app, never a fifo that would hold PID 1 up. ERR_NOT_FOUND, ERR_INVALID,
 * ERR_IO. */
static int app_read_file(const char *path, char **ret_text, size_t *ret_len, struct err *e)
{
    struct stat info;
    int fd AUTOCLOSE = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0) {
        return err_set(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "open %s", path);
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return err_set(e, ERR_INVALID, 0, "%s is not a file; write it anew", path);
    }
    return fd_read_all(fd, MANIFEST_BYTES_MAX, ret_text, ret_len, e);
}

static int app_read_manifest(struct manifest *ret, struct err *e)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;

    if (app_read_file(APP_MANIFEST, &text, &len, e) != 0) {
        return -1;
    }
    return manifest_parse(str_n(text, len), ret, e);
}

static int app_read_default(struct manifest *ret, struct err *e)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;

    if (app_read_file(APP_PACKAGE, &text, &len, NULL) == 0 &&
        manifest_package_has_dev(str_n(text, len))) {
        manifest_default(ret);
        return 0;
    }
    return err_set(e, ERR_NOT_FOUND, 0,
                   "nothing to run yet: the app has no sandbox.yaml and no package.json with a "
                   "`dev` script; add one of them to " SEED_APP);
}

static void app_problem(struct app *a, const struct err *e)
{
    (void)snprintf(a->problem, sizeof(a->problem), "%s", e->msg);
    a->problem_is_failure = e->code != ERR_NOT_FOUND;
    app_changed(a);
}

/* Reads what is to run and runs it. A manifest that cannot be used changes nothing of what runs. */
static void app_load(struct app *a, bool anew)
{
    struct manifest m = {0};
    struct err e = {0};
    int result = 0;

    for (size_t i = 0; i < 2; i++) {
        a->seen[i] = app_look_at(app_files[i]);
        a->pending[i] = a->seen[i];
    }
    result = app_read_manifest(&m, &e);
    if (result != 0 && e.code == ERR_NOT_FOUND) {
        result = app_read_default(&m, &e);
    }
    if (result != 0) {
        log_warn("the app has no usable manifest", "error", e.msg);
        app_problem(a, &e);
        app_declare(a);
        return;
    }
    a->problem[0] = '\0';
    app_apply(a, &m, anew);
    manifest_done(&m);
}

/* ---- seeding ---- */

static void seed_on_output(void *ctx, uint32_t events)
{
    struct app *a = ctx;
    char bytes[1024];
    ssize_t len = read(a->seed_output.fd, bytes, sizeof(bytes));

    (void)events;
    if (len > 0) {
        ring_add(&a->seed_ring, str_n(bytes, (size_t)len));
    } else if (len == 0 || errno != EAGAIN) {
        loop_close(a->loop, &a->seed_output);
    }
}

static void seed_on_started(void *ctx)
{
    app_changed(ctx);
}

static void seed_failed(struct app *a)
{
    BUF_AUTO(tail, APP_SEED_TAIL_BYTES);
    struct err e = {0};

    ring_tail(&a->seed_ring, APP_SEED_TAIL_BYTES, &tail);
    struct str said = str_trim(buf_str(&tail));
    (void)err_set(&e, ERR_IO, 0, "the template %s could not be copied: %.*s",
                  a->settings.template_name, STR_FMT(said.len > 0 ? said : STR("it was ended")));
    log_error("seeding failed", "error", e.msg);
    app_problem(a, &e);
}

static void seed_on_gone(void *ctx, bool stuck)
{
    struct app *a = ctx;
    int status = a->seed.status;

    while (a->seed_output.fd >= 0) {
        size_t before = a->seed_ring.len;

        seed_on_output(a, 0);
        if (a->seed_output.fd >= 0 && a->seed_ring.len == before) {
            loop_close(a->loop, &a->seed_output);
        }
    }
    app_changed(a);
    if (a->stopping) {
        return;
    }
    if (stuck || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        seed_failed(a);
    } else {
        app_load(a, false);
    }
    ring_done(&a->seed_ring);
}

static int seed_start(struct app *a, struct err *e)
{
    const char *argv[] = {spawn_self(), "child", "seed", a->settings.template_name,
                          a->boot_id,   NULL};
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return err_set(e, ERR_UNAVAILABLE, errno, "make a pipe");
    }
    int theirs AUTOCLOSE = ends[1];
    a->seed_output.on_event = seed_on_output;
    a->seed_output.ctx = a;
    if (fd_set_nonblock(ends[0]) != 0 ||
        loop_add(a->loop, &a->seed_output, ends[0], EPOLLIN, e) != 0) {
        (void)close(ends[0]);
        return err_set(e, ERR_UNAVAILABLE, 0, "watch a pipe");
    }
    struct run_options options = {
        .cwd = "/", .argv = argv, .envp = a->env, .fds = {-1, theirs, theirs}};
    a->seed.hooks = (struct run_hooks){seed_on_started, seed_on_gone, a};
    if (run_start(a->runs, &a->seed, &options, e) != 0) {
        loop_close(a->loop, &a->seed_output);
        return -1;
    }
    return 0;
}

/* Seeds an empty app, or loads what is there. */
static void app_begin(struct app *a)
{
    struct err e = {0};

    if (run_is_active(&a->seed)) {
        return;
    }
    if (a->settings.template_name[0] == '\0' || !seed_is_needed(SEED_APP)) {
        app_load(a, false);
        return;
    }
    a->problem[0] = '\0';
    app_declare(a);
    app_changed(a);
    if (seed_start(a, &e) != 0) {
        app_problem(a, &e);
    }
}

/* ---- what others ask for ---- */

static void app_make_dirs(void)
{
    /* Each may exist; what is really wrong shows when something uses it. */
    (void)mkdir("/home/sandbox/.tmp", 0700);
    (void)mkdir(SEED_WORKSPACE, 0755);
    (void)mkdir(SEED_APP, 0755);
}

static void app_restart_all(struct app *a)
{
    for (size_t i = 0; i < APP_PROCESSES_MAX; i++) {
        struct process *p = &a->processes[i];

        if (p->used && !p->removed) {
            process_event(p, MACHINE_RESTART);
        }
    }
}

int app_configure(struct app *a, const struct record *r, struct err *e)
{
    struct app_settings next = {0};
    uint16_t port_before = app_web_port(a);
    bool first = !a->configured;
    bool env_same = true;

    if (settings_parse(r, &next, e) != 0) {
        return -1;
    }
    env_same = settings_same_env(&a->settings, &next);
    env_same &= !app_config_take(a, &next);
    settings_done(&a->settings);
    a->settings = next;
    a->configured = true;
    if (a->stopping) {
        return 0;
    }
    if (first) {
        app_make_dirs();
        app_begin(a);
        return 0;
    }
    app_declare(a);
    if (!env_same) {
        app_restart_all(a);
    } else if (app_web_port(a) != port_before && app_web(a)) {
        process_event(app_web(a), MACHINE_RESTART);
    }
    return 0;
}

bool app_restart(struct app *a, struct str name)
{
    char text[MANIFEST_NAME_BYTES_MAX + 1];

    if (!a->configured || a->stopping || name.len > MANIFEST_NAME_BYTES_MAX) {
        return false;
    }
    memcpy(text, name.ptr ? name.ptr : "", name.len);
    text[name.len] = '\0';
    if (a->problem[0] != '\0' && seed_is_needed(SEED_APP)) {
        app_begin(a);
        return true;
    }
    app_load(a, false);
    struct process *p = app_find(a, text);
    if (!p) {
        return false;
    }
    /* One that was only now begun by the manifest does not start twice. */
    if (p->machine.started_ms != 0 && clock_mono_ms() - p->machine.started_ms > 1) {
        process_event(p, MACHINE_RESTART);
    }
    return true;
}

void app_task_ended(struct app *a)
{
    if (!a->configured || a->stopping || run_is_active(&a->seed)) {
        return;
    }
    app_load(a, false);
    for (size_t i = 0; i < APP_PROCESSES_MAX; i++) {
        struct process *p = &a->processes[i];

        if (p->used && !p->removed &&
            (p->restart_after_task || p->machine.state == MACHINE_FAILED ||
             p->machine.state == MACHINE_BACKOFF)) {
            process_event(p, MACHINE_RESTART);
        }
    }
}

bool app_stop(struct app *a, bool web_too, int64_t grace_ms)
{
    bool active = run_is_active(&a->seed);

    a->stopping = true;
    run_stop(&a->seed, grace_ms);
    for (size_t i = 0; i < APP_PROCESSES_MAX; i++) {
        struct process *p = &a->processes[i];

        if (p->used && (web_too || !p->is_web)) {
            process_stop(p, grace_ms);
            active |= run_is_active(&p->run);
        }
    }
    return !active;
}

/* ---- the phase ---- */

static void set_detail(struct app *a, enum app_phase phase, const char *text)
{
    if (a->phase != phase || strcmp(a->detail, text) != 0) {
        a->phase = phase;
        (void)snprintf(a->detail, sizeof(a->detail), "%s", text);
        a->phase_dirty = true;
    }
}

static void phase_of_failed(struct app *a, const struct process *p)
{
    char how[64];
    char text[APP_DETAIL_BYTES];

    process_how_ended(p, how, sizeof(how));
    (void)snprintf(text, sizeof(text),
                   "the %s process %s %d times in a row and is not started again", p->name, how,
                   MACHINE_FAST_FAILURES_MAX);
    set_detail(a, APP_FAILED, text);
}

static void phase_of_waiting(struct app *a, const struct process *p)
{
    char how[64] = "";
    char text[APP_DETAIL_BYTES];
    unsigned port = app_web_port(a);
    unsigned other = portwatch_other(&a->ports);

    if (p->machine.state == MACHINE_BACKOFF) {
        process_how_ended(p, how, sizeof(how));
        (void)snprintf(text, sizeof(text), "the web process %s; it is started again", how);
    } else if (other != 0) {
        (void)snprintf(text, sizeof(text),
                       "waiting for port %u; something listens on port %u, which is not declared",
                       port, other);
    } else {
        (void)snprintf(text, sizeof(text), "waiting for port %u", port);
    }
    set_detail(a, APP_STARTING, text);
}

static struct process *app_first_failed(struct app *a)
{
    for (size_t i = 0; i < APP_PROCESSES_MAX; i++) {
        struct process *p = &a->processes[i];

        if (p->used && !p->removed && p->machine.state == MACHINE_FAILED) {
            return p;
        }
    }
    return NULL;
}

static bool app_has_processes(const struct app *a)
{
    for (size_t i = 0; i < APP_PROCESSES_MAX; i++) {
        if (a->processes[i].used && !a->processes[i].removed) {
            return true;
        }
    }
    return false;
}

static void app_decide_phase(struct app *a)
{
    struct process *web = app_web(a);
    struct process *failed = app_first_failed(a);

    if (!a->configured) {
        set_detail(a, APP_STARTING, "waiting for the control plane");
    } else if (run_is_active(&a->seed)) {
        set_detail(a, APP_SEEDING, "");
    } else if (!app_has_processes(a)) {
        set_detail(a, a->problem_is_failure ? APP_FAILED : APP_IDLE, a->problem);
    } else if (web && web->machine.state == MACHINE_FAILED) {
        phase_of_failed(a, web);
    } else if (web && web->machine.state != MACHINE_RUNNING) {
        phase_of_waiting(a, web);
    } else if (!web && failed) {
        phase_of_failed(a, failed);
    } else {
        set_detail(a, APP_RUNNING, a->problem);
    }
}

/* The port's state becomes the web process's. */
static void app_match_port(struct app *a, int64_t now_ms)
{
    struct process *web = app_web(a);

    if (!web) {
        portwatch_hurry(&a->ports, false, now_ms);
        return;
    }
    bool open = portwatch_is_open(&a->ports, app_web_port(a));
    if (web->machine.state == MACHINE_STARTING && open) {
        process_event(web, MACHINE_READY);
    } else if (web->machine.state == MACHINE_RUNNING && !open) {
        process_event(web, MACHINE_UNREADY);
    }
    portwatch_hurry(&a->ports, web->machine.state == MACHINE_STARTING, now_ms);
}

/* A port that was open a moment ago was the last run's: a new run is not ready by it. */
static void app_look_for_new_run(struct app *a, int64_t now_ms)
{
    struct process *web = app_web(a);

    if (web &&
        (web->machine.started_ms != a->web_started_ms || web->machine.state != a->web_state)) {
        a->web_started_ms = web->machine.started_ms;
        a->web_state = web->machine.state;
        portwatch_expire(&a->ports);
        (void)portwatch_tick(&a->ports, now_ms);
    }
}

static void app_refresh(struct app *a, int64_t now_ms)
{
    if (a->stale) {
        a->stale = false;
        app_collect(a);
        app_look_for_new_run(a, now_ms);
        app_match_port(a, now_ms);
        app_decide_phase(a);
    }
}

/* ---- time ---- */

/* A file that changed is loaded once it stood still for one look: editors and agents write in
 * pieces. */
static void app_look(struct app *a)
{
    bool changed = false;
    bool still = true;

    for (size_t i = 0; i < 2; i++) {
        struct app_file now = app_look_at(app_files[i]);

        /* package.json counts only where there is no sandbox.yaml. */
        changed |= !app_file_same(&now, &a->seen[i]) && (i == 0 || !a->pending[0].exists);
        still &= app_file_same(&now, &a->pending[i]);
        a->pending[i] = now;
    }
    if (changed && still) {
        app_load(a, false);
    }
}

int64_t app_tick(struct app *a, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;

    if (!a->configured || a->stopping) {
        app_refresh(a, now_ms);
        return INT64_MAX;
    }
    if (now_ms >= a->look_ms && !run_is_active(&a->seed)) {
        a->look_ms = now_ms + APP_LOOK_MS;
        app_look(a);
    }
    for (size_t i = 0; i < APP_PROCESSES_MAX; i++) {
        int64_t at_ms = a->processes[i].used ? process_tick(&a->processes[i], now_ms) : INT64_MAX;

        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    app_refresh(a, now_ms);
    (void)portwatch_tick(&a->ports, now_ms);
    app_refresh(a, now_ms); /* which may bring the next look forward */
    next_ms = a->ports.next_ms < next_ms ? a->ports.next_ms : next_ms;
    return a->look_ms < next_ms && !run_is_active(&a->seed) ? a->look_ms : next_ms;
}

/* ---- telling ---- */

void app_tell_all(struct app *a)
{
    a->phase_dirty = true;
    for (size_t i = 0; i < APP_PROCESSES_MAX; i++) {
        a->processes[i].dirty = true;
    }
    portwatch_tell_all(&a->ports);
}

const char *app_phase_name(enum app_phase phase)
{
    static const char *const names[] = {"idle", "seeding", "starting", "running", "failed"};

    return names[phase];
}

void app_add_config_version(const struct app *a, struct record_writer *w)
{
    if (a->settings.config.is_given) {
        record_addn(w, "config_version", a->settings.config.version);
    }
}

static void emit_phase(struct app *a, struct buf *out)
{
    struct record_writer w = record_begin(out, "phase");

    record_adds(&w, "phase", app_phase_name(a->phase));
    record_adds(&w, "detail", a->detail);
    app_add_config_version(a, &w);
    if (record_end(&w)) {
        a->phase_dirty = false;
    }
}

void app_emit(struct app *a, struct buf *out, size_t until)
{
    if (!a->configured) {
        return;
    }
    portwatch_emit(&a->ports, out, until);
    for (size_t i = 0; i < APP_PROCESSES_MAX; i++) {
        struct process *p = &a->processes[i];

        if (p->used && p->dirty && out->len < until && process_emit(p, out)) {
            p->dirty = false;
        }
    }
    if (a->phase_dirty && out->len < until) {
        emit_phase(a, out);
    }
}
