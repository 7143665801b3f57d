/*
 * Sandboxes as Docker containers. Any thread. Touches only containers with this instance's label.
 */
#include "engine/container.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checks.h"
#include "engine/mounts.h"
#include "engine/network.h"
#include "engine/runtime.h"
#include "engine/starting.h"
#include "lib/clock.h"
#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/thread.h"

#define STARTS_AT_ONCE_MAX 4 /* more make each slower and none sooner */
#define START_TIMEOUT_MS   60000
#define STOP_EXTRA_MS      30000
#define REMOVE_TIMEOUT_MS  60000
#define REMOVE_TRIES       20
#define REMOVE_WAIT_MS     250
#define SPEC_BYTES_MAX     32768
#define LOGS_TAIL_LINES    "64"

static pthread_mutex_t starts_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t starts_free = PTHREAD_COND_INITIALIZER;
static int starts_running;

static void starts_enter(void)
{
    LOCK_GUARD(&starts_lock);
    while (starts_running == STARTS_AT_ONCE_MAX) {
        (void)pthread_cond_wait(&starts_free, &starts_lock);
    }
    starts_running++;
}

static void starts_leave(void)
{
    LOCK_GUARD(&starts_lock);
    starts_running--;
    (void)pthread_cond_signal(&starts_free);
}

/* Today's spec for a request. image is borrowed by ret. ERR_UNAVAILABLE the image is not there. */
static int spec_prepare(struct engine *g, const struct spec_request *request,
                        struct images_status *image, struct spec *ret, struct err *e)
{
    int index = -1;
    if (images_find(g->images, str_of(request->image), &index, e) < 0 ||
        images_status(g->images, index, image, e) < 0) {
        return err_wrap(e, "image %s", request->image);
    }
    if (image->state != IMAGES_PRESENT) {
        (void)err_set(e, ERR_UNAVAILABLE, 0, "image %s is not there yet%s%s", request->image,
                      *image->error ? ": " : "", image->error);
        return err_tag(e, "image_building");
    }
    *ret = (struct spec){
        .config = g->config,
        .request = *request,
        .tag = image->tag,
        .image_id = image->image_id,
        .memory_bytes = request->memory_bytes ? request->memory_bytes : g->memory_default_bytes,
        .cpus_milli = request->cpus_milli ? request->cpus_milli : g->config->cpus_milli,
        .nofile = atomic_load(&g->is_nofile_refused) ? 0 : g->nofile};
    return 0;
}

/* A container that was never started is not attached yet; one whose network was removed keeps the
 * id of that. */
static bool is_current(const struct inspect *container, const char *hash,
                       const struct network *network)
{
    return strcmp(container->spec, hash) == 0 &&
           (!*container->network_id || strcmp(container->network_id, network->id) == 0);
}

bool container_is_current(struct engine *g, const struct inspect *container)
{
    struct images_status image;
    struct spec spec;
    struct network network;
    struct err ignored;
    char hash[CRYPTO_SHA256_HEX];
    return container->state != INSPECT_MISSING && container->request.uid != 0 &&
           spec_prepare(g, &container->request, &image, &spec, &ignored) == 0 &&
           spec_hash(&spec, hash, &ignored) == 0 &&
           network_inspect(g->docker, g->config, &network, &ignored) == 0 &&
           is_current(container, hash, &network);
}

static int sources_check(struct engine *g, const struct spec_request *request,
                         struct checks_sources *ret, struct err *e)
{
    checks_sources_list(g->config, &request->id, request->uid, request->init, ret);
    if (checks_sources_verify(g->config, ret, e) < 0) {
        return -1;
    }
    return checks_init_verify(g->config, request->init, e);
}

/* What must hold before anything of a sandbox is made or runs. The bridge first: Docker loads
 * br_netfilter for it, which the walls need. */
static int ground_check(struct engine *g, struct network *ret_network, struct err *e)
{
    if (runtime_check(g->runtime, e) < 0 ||
        network_ensure(g->docker, g->config, ret_network, e) < 0) {
        return -1;
    }
    return walls_require(g->walls, e);
}

static int remove_by_id(struct engine *g, const char *container_id, struct err *e)
{
    char path[INSPECT_ID_BYTES + 48];
    (void)snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", container_id);
    for (int i = 0; i < REMOVE_TRIES; i++) {
        if (docker_do(g->docker, "DELETE", path, NULL, REMOVE_TIMEOUT_MS, e) == 0 ||
            e->code == ERR_NOT_FOUND) {
            return 0;
        }
        if (e->code != ERR_CONFLICT) {
            return -1;
        }
        /* Another removal is on its way. */
        clock_sleep_ms(REMOVE_WAIT_MS);
    }
    return -1;
}

/* Docker sees the mounts that the host has now, we those of our own start: a disk may have come or
 * gone in between. */
static int explain_workspace(struct engine *g, const struct ulid *id, const char *what,
                             struct err *e)
{
    char workspace[PATHS_MAX];
    (void)paths_workspace(workspace, g->config->data_dir, id);
    if (!str_contains(str_of(e->msg), str_of(workspace))) {
        return -1;
    }
    log_warn("a workspace is not what it was", "sandbox", id->text, "error", e->msg);
    (void)err_set(e, ERR_NOT_FOUND, 0,
                  "the workspace %s %s; is the data disk mounted? Nothing is started in its place",
                  workspace, what);
    return err_tag(e, "workspace_missing");
}

static int explain_refused_mount(struct engine *g, const struct ulid *id, struct err *e)
{
    bool is_gone = str_contains(str_of(e->msg), STR("bind source path does not exist"));
    return is_gone ? explain_workspace(g, id, "is missing where Docker looks for it", e) : -1;
}

static int create_new(struct engine *g, const struct spec *spec, struct err *e)
{
    char path[SPEC_NAME_BYTES + 64];
    char name[SPEC_NAME_BYTES];
    BUF_AUTO(body, SPEC_BYTES_MAX);
    struct err why;
    if (spec_write(spec, &body, e) < 0) {
        return -1;
    }
    spec_name(&spec->request.id, name);
    (void)snprintf(path, sizeof(path), "/containers/create?name=%s", name);
    if (docker_do(g->docker, "POST", path, &body, 0, &why) == 0) {
        return 0;
    }
    *e = why;
    (void)err_wrap(e, "create");
    return explain_refused_mount(g, &spec->request.id, e);
}

int container_create(struct engine *g, const struct spec_request *request, struct inspect *ret,
                     struct err *e)
{
    struct images_status image;
    struct spec spec;
    struct network network;
    struct checks_sources sources;
    char hash[CRYPTO_SHA256_HEX];
    if (spec_prepare(g, request, &image, &spec, e) < 0 || spec_hash(&spec, hash, e) < 0 ||
        ground_check(g, &network, e) < 0 || sources_check(g, request, &sources, e) < 0 ||
        inspect_container(g->docker, g->config, &request->id, ret, e) < 0) {
        return -1;
    }
    bool is_alive = ret->state == INSPECT_RUNNING || ret->state == INSPECT_PAUSED;
    if (ret->state != INSPECT_MISSING && (is_alive || is_current(ret, hash, &network))) {
        return 0;
    }
    if (ret->state != INSPECT_MISSING && remove_by_id(g, ret->container_id, e) < 0) {
        return err_wrap(e, "remove the container of yesterday's spec");
    }
    if (create_new(g, &spec, e) < 0) {
        return -1;
    }
    return inspect_container(g->docker, g->config, &request->id, ret, e);
}

static int start_by_id(struct engine *g, const struct inspect *container, struct err *e)
{
    char path[INSPECT_ID_BYTES + 48];
    const char *verb = container->state == INSPECT_PAUSED ? "unpause" : "start";
    (void)snprintf(path, sizeof(path), "/containers/%s/%s", container->container_id, verb);
    starts_enter();
    starting_begin(container);
    int result = docker_do(g->docker, "POST", path, NULL, START_TIMEOUT_MS, e);
    starting_end(container);
    starts_leave();
    if (result < 0) {
        (void)err_wrap(e, "%s", verb);
        return explain_refused_mount(g, &container->id, e);
    }
    return 0;
}

/* An engine without SYS_RESOURCE may not raise a limit: then containers keep the engine's own. */
static bool is_rlimit_refused(struct engine *g, const struct err *e)
{
    return e->code == ERR_IO && !atomic_load(&g->is_nofile_refused) &&
           str_contains(str_of(e->msg), STR("rlimit"));
}

static int start_without_nofile(struct engine *g, struct inspect *container, struct err *e)
{
    struct spec_request request = container->request;
    log_warn("the engine may not set the limit of open files: sandboxes keep the engine's own",
             "error", e->msg);
    atomic_store(&g->is_nofile_refused, true);
    if (remove_by_id(g, container->container_id, e) < 0 ||
        container_create(g, &request, container, e) < 0) {
        return -1;
    }
    return start_by_id(g, container, e);
}

/* Under gVisor the mounts are the gofer's, in a namespace that is not the process's. A process that
 * ended at once has none left to look at. */
static int started_check(struct engine *g, const struct checks_sources *sources,
                         const struct inspect *container, struct err *e)
{
    struct err why;
    if (g->config->runsc || container->state != INSPECT_RUNNING ||
        mounts_verify(g->config, container->pid, sources, &why) == 0 || why.code != ERR_FORBIDDEN) {
        return 0;
    }
    log_error("a sandbox had something else mounted and was removed", "sandbox", container->id.text,
              "error", why.msg);
    (void)remove_by_id(g, container->container_id, e);
    *e = why;
    return explain_workspace(g, &container->id, "is another directory where Docker looks for it",
                             e);
}

int container_start(struct engine *g, const struct ulid *id, struct inspect *ret, struct err *e)
{
    struct network network;
    struct checks_sources sources;
    if (inspect_container(g->docker, g->config, id, ret, e) < 0) {
        return -1;
    }
    if (ret->state == INSPECT_MISSING) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no container of that sandbox: create it");
    }
    if (ret->state == INSPECT_RUNNING) {
        return 0;
    }
    if (ret->request.uid == 0) {
        return err_set(e, ERR_CONFLICT, 0,
                       "the container does not say what it was made of: remove it");
    }
    if (ground_check(g, &network, e) < 0 || sources_check(g, &ret->request, &sources, e) < 0) {
        return -1;
    }
    if (start_by_id(g, ret, e) < 0 &&
        (!is_rlimit_refused(g, e) || start_without_nofile(g, ret, e) < 0)) {
        return -1;
    }
    if (inspect_container(g->docker, g->config, id, ret, e) < 0) {
        return -1;
    }
    return started_check(g, &sources, ret, e);
}

int container_stop(struct engine *g, const struct ulid *id, uint64_t grace_s, struct inspect *ret,
                   struct err *e)
{
    char path[INSPECT_ID_BYTES + 48];
    if (inspect_container(g->docker, g->config, id, ret, e) < 0) {
        return -1;
    }
    if (ret->state != INSPECT_RUNNING && ret->state != INSPECT_PAUSED) {
        return 0;
    }
    (void)snprintf(path, sizeof(path), "/containers/%s/stop?t=%u", ret->container_id,
                   (unsigned)grace_s);
    if (docker_do(g->docker, "POST", path, NULL, (int64_t)grace_s * 1000 + STOP_EXTRA_MS, e) < 0 &&
        e->code != ERR_NOT_FOUND) {
        return err_wrap(e, "stop");
    }
    return inspect_container(g->docker, g->config, id, ret, e);
}

int container_remove(struct engine *g, const struct ulid *id, struct err *e)
{
    struct inspect container;
    if (inspect_container(g->docker, g->config, id, &container, e) < 0) {
        return -1;
    }
    if (container.state == INSPECT_MISSING) {
        return 0;
    }
    return remove_by_id(g, container.container_id, e) < 0 ? err_wrap(e, "remove") : 0;
}

void container_logs_demux(struct str frames, struct buf *out)
{
    while (frames.len >= 8) {
        const uint8_t *head = (const uint8_t *)frames.ptr;
        size_t len = (size_t)head[4] << 24 | (size_t)head[5] << 16 | (size_t)head[6] << 8 | head[7];
        if (head[0] > 2 || head[1] != 0 || head[2] != 0 || head[3] != 0) {
            return;
        }
        buf_add_str(out, str_cut(frames, 8, 8 + len));
        frames = str_cut(frames, 8 + len, frames.len);
    }
}

int container_logs(struct engine *g, const struct ulid *id, struct buf *out, struct err *e)
{
    struct inspect container;
    char path[INSPECT_ID_BYTES + 96];
    FETCH_ANSWER_AUTO(answer);
    BUF_AUTO(text, 4UL << 20);
    if (inspect_container(g->docker, g->config, id, &container, e) < 0) {
        return -1;
    }
    if (container.state == INSPECT_MISSING) {
        return err_set(e, ERR_NOT_FOUND, 0, "there is no container of that sandbox");
    }
    (void)snprintf(path, sizeof(path),
                   "/containers/%s/logs?stdout=1&stderr=1&tail=" LOGS_TAIL_LINES,
                   container.container_id);
    struct docker_request request = {.method = "GET", .path = path, .answer_max = 4UL << 20};
    if (docker_call(g->docker, &request, &answer, e) < 0) {
        return err_wrap(e, "logs");
    }
    container_logs_demux(buf_str(&answer.body), &text);
    struct str all = buf_str(&text);
    buf_add_str(out, all.len > CONTAINER_LOGS_BYTES
                         ? str_cut(all, all.len - CONTAINER_LOGS_BYTES, all.len)
                         : all);
    return 0;
}

static void each_path(const struct config *config, struct buf *out)
{
    BUF_AUTO(filters, 1024);
    char label[512];
    struct json_writer w;
    (void)snprintf(label, sizeof(label), SPEC_LABEL_INSTANCE "=%s", config->data_dir);
    json_begin(&w, &filters);
    json_object(&w, NULL);
    json_array(&w, "label");
    json_text(&w, NULL, label);
    json_array_end(&w);
    json_object_end(&w);
    buf_puts(out, "/containers/json?all=1&filters=");
    docker_encode(out, buf_str(&filters));
}

int container_each(struct engine *g,
                   int (*fn)(const struct inspect *container, void *ctx, struct err *e), void *ctx,
                   struct err *e)
{
    BUF_AUTO(path, 4096);
    struct json_doc *doc AUTO(json_doc) = NULL;
    each_path(g->config, &path);
    if (docker_json(g->docker, "GET", path.ptr, NULL, &doc, e) < 0) {
        return -1;
    }
    const struct json_value *all = json_root(doc);
    for (size_t i = 0; json_is_array(all) && i < json_count(all); i++) {
        struct inspect container;
        if (!inspect_parse_item(json_at(all, i), g->config, &container)) {
            continue;
        }
        int result = fn(&container, ctx, e);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}
