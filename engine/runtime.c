/*
 * The container runtime. Any thread.
 */
#include "engine/runtime.h"

static const char runtime_hint[] =
    "put {\"runtimes\":{\"runsc\":{\"path\":\"/usr/bin/runsc\",\"runtimeArgs\":"
    "[\"--platform=ptrace\",\"--host-uds=open\",\"--network=host\"]}}} into "
    "/etc/docker/daemon.json and restart Docker (--network=host only where this kernel needs it)";

/* "open" and "all" let a sandbox dial its doors. */
static bool runtime_arg_opens(struct str arg)
{
    return str_is(arg, "--host-uds=open") || str_is(arg, "--host-uds=all") ||
           str_is(arg, "-host-uds=open") || str_is(arg, "-host-uds=all");
}

int runtime_check_info(const struct json_value *info, struct err *e)
{
    const struct json_value *runsc = json_path(info, "Runtimes", "runsc", NULL);
    const struct json_value *args = json_get(runsc, "runtimeArgs");
    if (!runsc) {
        return err_set(e, ERR_UNAVAILABLE, 0,
                       "SANDBOXD_RUNTIME=runsc, but Docker knows no runtime runsc: %s",
                       runtime_hint);
    }
    for (size_t i = 0; json_is_array(args) && i < json_count(args); i++) {
        if (runtime_arg_opens(json_as_str(json_at(args, i)))) {
            return 0;
        }
    }
    return err_set(e, ERR_UNAVAILABLE, 0,
                   "SANDBOXD_RUNTIME=runsc, but it is registered without --host-uds=open: %s",
                   runtime_hint);
}

int runtime_check(struct docker *docker, const struct config *config, struct err *e)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    if (!config->runsc) {
        return 0;
    }
    if (docker_json(docker, "GET", "/info", NULL, &doc, e) < 0) {
        return -1;
    }
    return runtime_check_info(json_root(doc), e);
}
