/*
 * The engine and its runtime. Any thread.
 */
#include "engine/runtime.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/mounts.h"
#include "lib/thread.h"

struct runtime {
    struct docker *docker;       /* borrowed */
    const struct config *config; /* borrowed */
    pthread_mutex_t lock;        /* guards what is below */
    bool is_good;
};

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

static int runtime_check_runsc(const struct json_value *info, struct err *e)
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

/* Uids, mounts and walls mean something else under these. */
static int runtime_check_engine(const struct json_value *info, struct err *e)
{
    const struct json_value *options = json_get(info, "SecurityOptions");
    if (str_contains(json_get_str(info, "OperatingSystem"), STR("Docker Desktop"))) {
        return err_set(e, ERR_UNAVAILABLE, 0,
                       "this is Docker Desktop, whose machine is not this one: sandboxd needs "
                       "Docker on Linux itself");
    }
    for (size_t i = 0; json_is_array(options) && i < json_count(options); i++) {
        struct str option = json_as_str(json_at(options, i));
        if (str_starts(option, STR("name=rootless")) || str_starts(option, STR("name=userns"))) {
            return err_set(e, ERR_UNAVAILABLE, 0,
                           "this Docker runs %s: sandboxd gives every sandbox a uid of its own and "
                           "needs an engine with neither",
                           str_starts(option, STR("name=rootless")) ? "rootless"
                                                                    : "with userns-remap");
        }
    }
    return 0;
}

int runtime_check_info(const struct json_value *info, bool is_runsc, struct err *e)
{
    if (runtime_check_engine(info, e) < 0) {
        return -1;
    }
    return is_runsc ? runtime_check_runsc(info, e) : 0;
}

struct runtime *runtime_new(struct docker *docker, const struct config *config)
{
    struct runtime *r = mem_alloc(sizeof(*r));
    r->docker = docker;
    r->config = config;
    (void)pthread_mutex_init(&r->lock, NULL);
    return r;
}

void runtime_free(struct runtime *r)
{
    if (r) {
        (void)pthread_mutex_destroy(&r->lock);
        free(r);
    }
}

static bool runtime_is_good(struct runtime *r)
{
    LOCK_GUARD(&r->lock);
    return r->is_good;
}

static void runtime_set_good(struct runtime *r, bool is_good)
{
    LOCK_GUARD(&r->lock);
    r->is_good = is_good;
}

void runtime_forget(struct runtime *r)
{
    runtime_set_good(r, false);
}

/* Is path the folder itself or something below it? */
static bool path_is_below(const char *path, struct str folder)
{
    struct str p = str_of(path);
    return str_starts(p, folder) && (p.len == folder.len || p.ptr[folder.len] == '/');
}

int runtime_check_mounts(const struct json_value *own, const char *data_dir, struct err *e)
{
    const struct json_value *mounts = json_get(own, "Mounts");
    struct str source = {0};
    struct str target = {0};
    for (size_t i = 0; json_is_array(mounts) && i < json_count(mounts); i++) {
        struct str at = json_get_str(json_at(mounts, i), "Destination");
        if (at.ptr && at.len >= target.len && path_is_below(data_dir, at)) {
            target = at;
            source = json_get_str(json_at(mounts, i), "Source");
        }
    }
    if (target.ptr && source.ptr && str_eq(source, target)) {
        return 0;
    }
    return err_set(e, ERR_UNAVAILABLE, 0,
                   "SANDBOXD_DATA_DIR %s is %s%.*s on the host, and Docker mounts the host's "
                   "directories: give it the same path in the container of sandboxd-engine",
                   data_dir, target.ptr ? "mounted from " : "nowhere", STR_FMT(source));
}

/* Outside a container of this Docker there is nothing that could differ. */
static int runtime_check_data_dir(struct runtime *r, struct err *e)
{
    char id[MOUNTS_ID_BYTES];
    char path[MOUNTS_ID_BYTES + 32];
    struct err why;
    struct json_doc *doc AUTO(json_doc) = NULL;
    if (!mounts_find_own_container(id)) {
        return 0;
    }
    (void)snprintf(path, sizeof(path), "/containers/%s/json", id);
    if (docker_json(r->docker, "GET", path, NULL, &doc, &why) < 0) {
        if (why.code == ERR_NOT_FOUND) {
            return 0;
        }
        *e = why;
        return -1;
    }
    return runtime_check_mounts(json_root(doc), r->config->data_dir, e);
}

int runtime_check(struct runtime *r, struct err *e)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    if (runtime_is_good(r)) {
        return 0;
    }
    if (docker_json(r->docker, "GET", "/info", NULL, &doc, e) < 0 ||
        runtime_check_info(json_root(doc), r->config->runsc, e) < 0 ||
        runtime_check_data_dir(r, e) < 0) {
        return -1;
    }
    runtime_set_good(r, true);
    return 0;
}
