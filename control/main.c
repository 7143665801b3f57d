/*
 * sandboxd: the control plane. Wiring, signals, the order of start and stop; nothing else.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/api/api.h"
#include "control/api/session.h"
#include "lib/clock.h"
#include "lib/env.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/version.h"

/* Each arena of malloc keeps memory of its own; our threads allocate little and seldom at once. */
#define MAIN_ARENAS_MAX 2
#define MAIN_STOP_S     25

static void main_process_setup(void)
{
    struct rlimit none = {0, 0};
    (void)mallopt(M_ARENA_MAX, MAIN_ARENAS_MAX);
    (void)umask(077);
    (void)signal(SIGPIPE, SIG_IGN);
    /* Keys are in this process: no core file, no ptrace by another of our uid. */
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_DUMPABLE, 0);
    fd_raise_limit();
}

static void main_log_setup(void)
{
    enum log_level level = LOG_INFO;
    const char *text = env_text("SANDBOXD_LOG_LEVEL", "info");
    log_init("sandboxd", LOG_INFO);
    if (!log_level_parse(text, &level)) {
        log_die("SANDBOXD_LOG_LEVEL is \"%.32s\"; debug, info, warn or error is wanted", text);
    }
    log_init("sandboxd", level);
}

/* Blocks what we wait for; before the first thread. */
static void main_block_signals(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, set, NULL);
}

/* Everything that runs, in the order in which it starts; stopped in reverse. */
struct main_parts {
    struct api api;
    struct http_server *http;
};

static int main_start(struct main_parts *parts, const struct config *config, struct err *e)
{
    struct api *api = &parts->api;
    struct http_options http = {.api_port = config->api_port,
                                .console_port = config->console_port,
                                .authorize = api_authorize,
                                .ctx = api};
    api->config = config;
    http.routes = api_routes(&http.route_count);
    api_console_load(config);
    if (sandbox_service_start(config, &api->sandboxes, e) != 0 ||
        db_open(config->data_dir, &api->db, e) != 0 ||
        vault_start(config, api->db, &api->vault, e) != 0 ||
        task_service_start(config, api->db, api->sandboxes, api->vault, &api->tasks, e) != 0 ||
        vault_serve(api->vault, e) != 0 ||
        sandbox_service_run(api->sandboxes, api->db, api->vault, e) != 0) {
        return -1;
    }
    task_service_resume(api->tasks);
    return http_server_start(&http, &parts->http, e);
}

static void main_stop(struct main_parts *parts)
{
    /* A part that hangs must not keep the container: the next start finishes whatever is left. */
    (void)alarm(MAIN_STOP_S);
    http_server_stop(parts->http);
    task_service_stop(parts->api.tasks);
    sandbox_service_stop(parts->api.sandboxes);
    vault_stop(parts->api.vault);
    db_close(parts->api.db);
}

static int main_serve(const struct config *config)
{
    struct main_parts parts = {0};
    struct err e;
    sigset_t set;
    int caught = 0;
    main_block_signals(&set);
    if (main_start(&parts, config, &e) != 0) {
        log_die("%s", e.msg);
    }
    log_info("sandboxd serves", "version", CONFIG_VERSION, "commit", version_text());
    (void)sigwait(&set, &caught);
    log_info("sandboxd stops");
    main_stop(&parts);
    return 0;
}

/* ---- sandboxd console-code ---- */

static void main_print_console_address(const struct config *c, const char *code)
{
    bool real = !config_domain_is_local(c) && c->preview_tls;
    bool plain_port = c->http_port == 80 || real;
    if (plain_port) {
        (void)printf("%s://%s/#setup=%s\n", real ? "https" : "http",
                     real ? c->console_host : "console.localhost", code);
    } else {
        (void)printf("http://console.localhost:%u/#setup=%s\n", c->http_port, code);
    }
}

static int main_console_code(const struct config *config)
{
    BUF_AUTO(code, 128);
    struct db *db = NULL;
    struct err e;
    if (db_open(config->data_dir, &db, &e) != 0 || session_new_code(db, &code, &e) != 0) {
        log_die("%s", e.msg);
    }
    db_close(db);
    main_print_console_address(config, code.ptr);
    return 0;
}

int main(int argc, char **argv)
{
    /* Static: strings of it are used until the process ends. */
    static struct config config;
    struct err e;
    struct str verb = argc > 1 ? str_of(argv[1]) : STR("");
    main_process_setup();
    main_log_setup();
    if (argc == 2 && str_is(verb, "version")) {
        (void)printf("sandboxd %s (%s)\n", CONFIG_VERSION, version_text());
        return 0;
    }
    if (argc > 2 || (argc == 2 && !str_is(verb, "console-code"))) {
        log_die("unknown command; known are: sandboxd, sandboxd version, sandboxd console-code");
    }
    if (config_load(&config, &e) != 0) {
        log_die("%s", e.msg);
    }
    return argc == 2 ? main_console_code(&config) : main_serve(&config);
}
