/*
 * sandboxd-engine: the one program that holds the Docker socket.
 *
 * Listens on one Unix socket and on nothing else. Wiring, start and stop; runs in the main thread.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/config.h"
#include "engine/engine.h"
#include "engine/events.h"
#include "engine/figures.h"
#include "engine/hub.h"
#include "engine/meter.h"
#include "engine/server.h"
#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/fetch.h"
#include "lib/log.h"
#include "lib/paths.h"
#include "lib/version.h"

#define PROGRAM    "sandboxd-engine"
#define NOFILE_MAX 65536U
#define ARENAS_MAX 1 /* each further malloc arena keeps memory of its own */

/* The limit of a sandbox: never more than what we may have ourselves, so that nobody needs
 * SYS_RESOURCE to set it. */
static uint64_t nofile_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return 0;
    }
    return limit.rlim_max == RLIM_INFINITY || limit.rlim_max > NOFILE_MAX ? NOFILE_MAX
                                                                          : limit.rlim_max;
}

static void start_or_die(int result, const struct err *e)
{
    if (result < 0) {
        log_die("%s", e->msg);
    }
}

static int signals_open(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

/* sandboxd makes the directory of our socket; under Compose it may start later than we do. */
static void wait_for_directory(const struct config *config, int stop_fd)
{
    char path[PATHS_MAX];
    struct stat st;
    bool has_said = false;
    (void)paths_join(path, config->data_dir, "run/engine");
    while (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        struct signalfd_siginfo ignored;
        if (!has_said) {
            log_warn("waiting for sandboxd to make the directory of the socket", "path", path);
            has_said = true;
        }
        clock_sleep_ms(250);
        (void)fd_set_nonblock(stop_fd);
        if (read(stop_fd, &ignored, sizeof(ignored)) > 0) {
            _exit(0);
        }
    }
}

/* "version", and "remove-walls" for an uninstallation. */
static int run_argument(int argc, char **argv)
{
    static struct config config;
    struct err e = {0};
    if (argc == 2 && strcmp(argv[1], "version") == 0) {
        (void)!write(STDOUT_FILENO, version_text(), strlen(version_text()));
        (void)!write(STDOUT_FILENO, "\n", 1);
        return 0;
    }
    if (argc != 2 || strcmp(argv[1], "remove-walls") != 0) {
        log_die("it takes its settings from the environment; its arguments are version and "
                "remove-walls");
    }
    start_or_die(config_load(&config, &e), &e);
    start_or_die(walls_remove(&config, &e), &e);
    return 0;
}

int main(int argc, char **argv)
{
    static struct config config;
    struct engine engine = {.config = &config};
    struct figures_memory memory;
    struct err e = {0};
    log_init(PROGRAM, LOG_INFO);
    (void)umask(077);
    (void)mallopt(M_ARENA_MAX, ARENAS_MAX);
    if (argc > 1) {
        return run_argument(argc, argv);
    }
    start_or_die(config_load(&config, &e), &e);
    log_init(PROGRAM, config.log_level);
    int stop_fd = signals_open();
    engine.nofile = nofile_limit();
    fd_raise_limit();
    start_or_die(fetch_global_init(&e), &e);
    start_or_die(figures_memory_read(&memory, &e), &e);
    engine.memory_total_bytes = memory.total_bytes;
    engine.memory_default_bytes = figures_memory_default(memory.total_bytes, config.memory_bytes);
    wait_for_directory(&config, stop_fd);

    engine.docker = docker_new(config.docker_socket);
    engine.runtime = runtime_new(engine.docker, &config);
    engine.hub = hub_new();
    engine.meter = meter_new(&engine);
    engine.walls = walls_new(&config);
    walls_start(engine.walls);
    engine.images = images_start(&config, engine.docker);
    struct events *events = events_start(&engine);
    log_info("started", "version", version_text(), "data_dir", config.data_dir);
    int result = server_run(&engine, stop_fd, &e);
    if (result < 0) {
        log_error("cannot serve", "error", e.msg);
    }
    events_stop(events);
    images_stop(engine.images);
    walls_stop(engine.walls);
    walls_free(engine.walls);
    meter_free(engine.meter);
    hub_free(engine.hub);
    runtime_free(engine.runtime);
    docker_free(engine.docker);
    log_info("stopped");
    return result < 0 ? 1 : 0;
}
