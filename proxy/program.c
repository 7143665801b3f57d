/*
 * What the two programs of this room share before their loops: arguments, log, limits of the
 * process.
 *
 * Knows nothing of either role. Main thread.
 */
#include "proxy/program.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "lib/env.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/str.h"
#include "proxy/loop.h"

#define DATA_DIR_BYTES_MAX 255

static _Noreturn void usage(const char *name, bool listens)
{
    log_die("usage: sandboxd-%s --data-dir DIR%s", name, listens ? " --port PORT" : "");
}

static uint16_t read_port(const char *text)
{
    uint64_t port;

    if (!str_to_u64(str_of(text), UINT16_MAX, &port) || port == 0) {
        log_die("--port: \"%s\" is not a port from 1 to 65535", text);
    }
    return (uint16_t)port;
}

static struct program_options read_options(int argc, char **argv, const char *name, bool listens)
{
    struct program_options o = {0};

    if (argc % 2 == 0) {
        usage(name, listens);
    }
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--data-dir") == 0) {
            o.data_dir = argv[i + 1];
        } else if (listens && strcmp(argv[i], "--port") == 0) {
            o.port = read_port(argv[i + 1]);
        } else {
            usage(name, listens);
        }
    }
    if (listens && o.port == 0) {
        usage(name, listens);
    }
    if (!o.data_dir || o.data_dir[0] != '/' || strlen(o.data_dir) > DATA_DIR_BYTES_MAX) {
        log_die("--data-dir: an absolute path of at most %d bytes is needed", DATA_DIR_BYTES_MAX);
    }
    return o;
}

static enum log_level read_level(void)
{
    const char *text = env_text("SANDBOXD_LOG_LEVEL", "info");
    enum log_level level;

    if (!log_level_parse(text, &level)) {
        log_die("SANDBOXD_LOG_LEVEL: \"%s\" is none of debug, info, warn, error", text);
    }
    return level;
}

static void prepare(void)
{
    const struct rlimit none = {0, 0};

    (void)setrlimit(RLIMIT_CORE, &none);
    (void)umask(077);
    (void)signal(SIGPIPE, SIG_IGN);
    fd_raise_limit();
}

struct program_options program_begin(int argc, char **argv, const char *name, bool listens)
{
    log_init(name, LOG_INFO);

    struct program_options o = read_options(argc, argv, name, listens);

    log_init(name, read_level());
    prepare();
    loop_init();
    return o;
}
