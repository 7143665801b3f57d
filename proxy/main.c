/*
 * sandboxd-proxy: `preview --data-dir D --port P` or `credentials --data-dir D`.
 *
 * Reads its arguments and starts a role; knows nothing of either. Main thread.
 */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "lib/env.h"
#include "lib/fd.h"
#include "lib/log.h"
#include "lib/str.h"
#include "proxy/loop.h"
#include "proxy/role.h"

#define DATA_DIR_BYTES_MAX 255

struct options {
    const char *role, *data_dir;
    uint16_t port;
};

static _Noreturn void usage(void)
{
    log_die("usage: sandboxd-proxy preview --data-dir DIR --port PORT, "
            "or sandboxd-proxy credentials --data-dir DIR");
}

static uint16_t read_port(const char *text)
{
    uint64_t port;

    if (!str_to_u64(str_of(text), UINT16_MAX, &port) || port == 0) {
        log_die("--port: \"%s\" is not a port from 1 to 65535", text);
    }
    return (uint16_t)port;
}

static struct options read_options(int argc, char **argv)
{
    struct options o = {0};

    if (argc < 2 || argc % 2 != 0) {
        usage();
    }
    o.role = argv[1];
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--data-dir") == 0) {
            o.data_dir = argv[i + 1];
        } else if (strcmp(argv[i], "--port") == 0) {
            o.port = read_port(argv[i + 1]);
        } else {
            usage();
        }
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

/* Keys pass through the memory of the credentials role: nobody of the same uid may look at it. */
static void hide_memory(void)
{
#ifndef __SANITIZE_ADDRESS__ /* its leak check traces the process */
    (void)prctl(PR_SET_DUMPABLE, 0);
#endif
}

int main(int argc, char **argv)
{
    log_init("sandboxd-proxy", LOG_INFO);

    struct options o = read_options(argc, argv);
    bool is_preview = strcmp(o.role, "preview") == 0;

    if (!is_preview && strcmp(o.role, "credentials") != 0) {
        usage();
    }
    if (is_preview && o.port == 0) {
        usage();
    }
    log_init(is_preview ? "preview-proxy" : "credentials-proxy", read_level());
    prepare();
    loop_init();
    if (is_preview) {
        return preview_serve(o.data_dir, o.port);
    }
    hide_memory();
    return credentials_serve(o.data_dir);
}
