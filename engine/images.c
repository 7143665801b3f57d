/*
 * Images and their builds. The thread "builder" runs one build after the other; parents first.
 *
 * Must never hold its lock across an exchange with Docker.
 */
#include "engine/images.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/progress.h"
#include "lib/clock.h"
#include "lib/fd.h"
#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/paths.h"
#include "lib/thread.h"

#define DEBIAN_REPO "debian"
#define DEBIAN_TAG  "trixie-slim"
#define DEBIAN_TAR  "state/images/debian.tar"
/* Docker takes an empty archive for an image. */
#define DEBIAN_TAR_BYTES_MIN (16L << 20)
/* An apt-get or npm that hangs says nothing for long; a slow one goes on printing. */
#define BUILD_IDLE_MS (15LL * 60 * 1000)

/* What the builder makes known of the build of one image. */
struct images_work {
    bool is_wanted;
    int percent;
    char step[IMAGES_STEP_BYTES];
    char error[IMAGES_ERROR_BYTES]; /* "" unless the last build failed */
};

struct images {
    const struct config *config; /* borrowed */
    struct docker *docker;       /* borrowed */
    struct presets presets;      /* constant after the start */
    struct err load_error;       /* code ERR_NONE when loaded; constant */
    pthread_t thread;
    atomic_bool is_stopping;
    pthread_mutex_t lock; /* guards below */
    pthread_cond_t wake;
    struct images_work work[PRESETS_IMAGES_MAX];
};

/* One step of a chain: which image of how many is being built, for whom. */
struct images_build_run {
    struct images *m;
    const char *name;
    int wanted; /* index whose status shows the progress */
    int done;
    int total;
    struct progress progress;
};

const struct presets_image *images_get(const struct images *m, int index)
{
    return &m->presets.images[index];
}

int images_find(struct images *m, struct str name, int *ret_index, struct err *e)
{
    if (m->load_error.code != ERR_NONE) {
        *e = m->load_error;
        return -1;
    }
    *ret_index = presets_find(&m->presets, name);
    if (*ret_index < 0) {
        return err_set(e, ERR_NOT_FOUND, 0, "no image of that name");
    }
    return 0;
}

static int image_inspect(struct images *m, const char *tag, char ret_id[IMAGES_ID_BYTES],
                         struct err *e)
{
    char path[PRESETS_TAG_BYTES + 32];
    struct json_doc *doc AUTO(json_doc) = NULL;
    (void)snprintf(path, sizeof(path), "/images/%s/json", tag);
    if (docker_json(m->docker, "GET", path, NULL, &doc, e) < 0) {
        return -1;
    }
    struct str id = doc ? json_get_str(json_root(doc), "Id") : STR("");
    if (str_empty(id) || id.len >= IMAGES_ID_BYTES) {
        return err_set(e, ERR_IO, 0, "Docker names no id for the image %s", tag);
    }
    (void)snprintf(ret_id, IMAGES_ID_BYTES, "%.*s", STR_FMT(id));
    return 0;
}

int images_status(struct images *m, int index, struct images_status *ret, struct err *e)
{
    struct err why;
    *ret = (struct images_status){.state = IMAGES_PRESENT, .percent = 100};
    (void)snprintf(ret->tag, sizeof(ret->tag), "%s", m->presets.images[index].tag);
    if (image_inspect(m, ret->tag, ret->image_id, &why) == 0) {
        return 0;
    }
    if (why.code != ERR_NOT_FOUND) {
        *e = why;
        return -1;
    }
    LOCK_GUARD(&m->lock);
    const struct images_work *work = &m->work[index];
    ret->state = work->is_wanted ? IMAGES_BUILDING : *work->error ? IMAGES_FAILED : IMAGES_MISSING;
    ret->percent = work->is_wanted ? work->percent : 0;
    (void)snprintf(ret->step, sizeof(ret->step), "%s", work->is_wanted ? work->step : "");
    (void)snprintf(ret->error, sizeof(ret->error), "%s", work->error);
    return 0;
}

int images_build(struct images *m, int index, struct images_status *ret, struct err *e)
{
    if (images_status(m, index, ret, e) < 0) {
        return -1;
    }
    if (ret->state == IMAGES_PRESENT || ret->state == IMAGES_BUILDING) {
        return 0;
    }
    {
        LOCK_GUARD(&m->lock);
        m->work[index] = (struct images_work){.is_wanted = true, .step = "queued"};
        (void)pthread_cond_signal(&m->wake);
    }
    return images_status(m, index, ret, e);
}

static bool build_is_cancelled(void *ctx)
{
    struct images_build_run *run = ctx;
    return atomic_load(&run->m->is_stopping);
}

static size_t build_on_data(const char *bytes, size_t len, void *ctx)
{
    struct images_build_run *run = ctx;
    progress_feed(&run->progress, str_n(bytes, len));
    LOCK_GUARD(&run->m->lock);
    struct images_work *work = &run->m->work[run->wanted];
    work->percent = (run->done * 100 + run->progress.percent) / run->total;
    (void)snprintf(work->step, sizeof(work->step), "%s: %s", run->name, run->progress.step);
    return len;
}

/* The engine reports failures inside the stream of a good answer, and as the body of a bad one. */
static int build_exchange(struct images_build_run *run, const struct docker_request *request,
                          struct err *e)
{
    struct docker_request streamed = *request;
    FETCH_ANSWER_AUTO(answer);
    streamed.timeout_ms = -1;
    streamed.idle_timeout_ms = BUILD_IDLE_MS;
    streamed.data_fn = build_on_data;
    streamed.cancel_fn = build_is_cancelled;
    streamed.ctx = run;
    progress_init(&run->progress);
    int result = docker_call(run->m->docker, &streamed, &answer, e);
    /* The last line may come without its end. */
    progress_feed(&run->progress, STR("\n"));
    if (*run->progress.error) {
        /* The output says more than "returned a non-zero code". */
        struct str tail = progress_tail(&run->progress);
        struct str shown = tail.len > 300 ? str_cut(tail, tail.len - 300, tail.len) : tail;
        result = err_set(e, ERR_IO, 0, "%.180s%s%.*s", run->progress.error,
                         str_empty(shown) ? "" : "; last output: ", STR_FMT(shown));
    }
    progress_done(&run->progress);
    return result;
}

static void build_path(const struct presets *presets, const struct presets_image *image,
                       struct buf *out)
{
    BUF_AUTO(arguments, 1024);
    struct json_writer w;
    json_begin(&w, &arguments);
    json_object(&w, NULL);
    json_text(&w, "STAGE", image->tag);
    if (image->parent >= 0) {
        json_text(&w, "BASE", presets->images[image->parent].tag);
    }
    json_object_end(&w);
    buf_puts(out, "/build?rm=1&forcerm=1&t=");
    docker_encode(out, str_of(image->tag));
    buf_puts(out, "&buildargs=");
    docker_encode(out, buf_str(&arguments));
}

/* Images of earlier stages that only this build used. Their loss costs nothing; a failure to remove
 * them is no failure. */
static void build_remove_stages(struct images *m, const struct presets_image *image)
{
    BUF_AUTO(filters, 1024);
    BUF_AUTO(path, 2048);
    struct err ignored;
    struct json_writer w;
    json_begin(&w, &filters);
    json_object(&w, NULL);
    json_array(&w, "dangling");
    json_text(&w, NULL, "true");
    json_array_end(&w);
    json_array(&w, "label");
    char label[PRESETS_TAG_BYTES + 32];
    (void)snprintf(label, sizeof(label), "sandboxd.stage=%s", image->tag);
    json_text(&w, NULL, label);
    json_array_end(&w);
    json_object_end(&w);
    buf_puts(&path, "/images/prune?filters=");
    docker_encode(&path, buf_str(&filters));
    if (docker_do(m->docker, "POST", path.ptr, NULL, 120000, &ignored) < 0) {
        log_warn("stages of a build are left", "image", image->tag, "error", ignored.msg);
    }
}

struct images_import_run {
    struct images *m;
    int fd; /* borrowed: the archive */
};

static size_t import_on_body(char *bytes, size_t len, void *ctx)
{
    struct images_import_run *run = ctx;
    ssize_t n = read(run->fd, bytes, len);
    return n < 0 ? (size_t)-1 : (size_t)n;
}

static bool import_is_cancelled(void *ctx)
{
    struct images_import_run *run = ctx;
    return atomic_load(&run->m->is_stopping);
}

/* Debian's root file system as the installer kept it: works without a registry. ERR_NOT_FOUND when
 * it kept none. */
static int debian_import(struct images *m, struct err *e)
{
    char path[PATHS_MAX];
    FETCH_ANSWER_AUTO(answer);
    (void)paths_join(path, m->config->data_dir, DEBIAN_TAR);
    int fd AUTOCLOSE = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return err_set(e, ERR_NOT_FOUND, 0, "%s is not there", path);
    }
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < DEBIAN_TAR_BYTES_MIN) {
        return err_set(e, ERR_IO, 0, "%s is cut short: remove it and run install.sh again", path);
    }
    struct images_import_run run = {.m = m, .fd = fd};
    struct docker_request request = {.method = "POST",
                                     .path = "/images/create?fromSrc=-&repo=" DEBIAN_REPO
                                             "&tag=" DEBIAN_TAG "&changes=CMD%20%5B%22bash%22%5D",
                                     .content_type = "application/x-tar",
                                     .timeout_ms = -1,
                                     .idle_timeout_ms = BUILD_IDLE_MS,
                                     .body_fn = import_on_body,
                                     .cancel_fn = import_is_cancelled,
                                     .ctx = &run};
    return docker_call(m->docker, &request, &answer, e);
}

/* The image every base starts from: there, or kept by the installer, or pulled. */
static int debian_ensure(struct images_build_run *run, struct err *e)
{
    char id[IMAGES_ID_BYTES];
    struct err why;
    struct docker_request pull = {
        .method = "POST", .path = "/images/create?fromImage=" DEBIAN_REPO "&tag=" DEBIAN_TAG};
    if (image_inspect(run->m, DEBIAN_REPO ":" DEBIAN_TAG, id, &why) == 0) {
        return 0;
    }
    if (why.code != ERR_NOT_FOUND) {
        *e = why;
        return -1;
    }
    if (debian_import(run->m, &why) == 0) {
        log_info("made " DEBIAN_REPO ":" DEBIAN_TAG " from the kept root file system");
        return 0;
    }
    if (why.code != ERR_NOT_FOUND) {
        *e = why;
        return err_wrap(e, DEBIAN_REPO ":" DEBIAN_TAG " from " DEBIAN_TAR);
    }
    if (build_exchange(run, &pull, e) < 0) {
        return err_wrap(e, "pull " DEBIAN_REPO ":" DEBIAN_TAG
                           " (without a registry: run install.sh again, it makes the image)");
    }
    return 0;
}

static int build_one(struct images_build_run *run, int index, struct err *e)
{
    const struct presets_image *image = &run->m->presets.images[index];
    BUF_AUTO(path, 4096);
    BUF_AUTO(context, PRESETS_CONTEXT_BYTES_MAX);
    run->name = image->name;
    if (image->parent < 0 && debian_ensure(run, e) < 0) {
        return -1;
    }
    build_path(&run->m->presets, image, &path);
    if (presets_context(run->m->config, image, &context, e) < 0) {
        return -1;
    }
    struct docker_request request = {.method = "POST",
                                     .path = path.ptr,
                                     .body = buf_str(&context),
                                     .content_type = "application/x-tar"};
    log_info("building an image", "image", image->tag);
    if (build_exchange(run, &request, e) < 0) {
        return err_wrap(e, "image %s", image->name);
    }
    log_info("built an image", "image", image->tag);
    build_remove_stages(run->m, image);
    return 0;
}

/* Builds an image and what it needs; parents have lower numbers. */
static int build_chain(struct images *m, int index, struct err *e)
{
    int chain[PRESETS_IMAGES_MAX];
    int count = 0;
    char id[IMAGES_ID_BYTES];
    struct images_build_run run = {.m = m, .wanted = index};
    for (int at = index; at >= 0; at = m->presets.images[at].parent) {
        struct err why;
        if (image_inspect(m, m->presets.images[at].tag, id, &why) == 0) {
            break;
        }
        if (why.code != ERR_NOT_FOUND) {
            *e = why;
            return -1;
        }
        chain[count++] = at;
    }
    run.total = count > 0 ? count : 1;
    while (count > 0) {
        if (build_one(&run, chain[--count], e) < 0) {
            return -1;
        }
        run.done++;
    }
    return 0;
}

/* The next image somebody wants, or -1 at the end. */
static int builder_next(struct images *m)
{
    LOCK_GUARD(&m->lock);
    while (!atomic_load(&m->is_stopping)) {
        for (size_t i = 0; i < m->presets.count; i++) {
            if (m->work[i].is_wanted) {
                return (int)i;
            }
        }
        (void)pthread_cond_wait(&m->wake, &m->lock);
    }
    return -1;
}

static void *builder_run(void *ctx)
{
    struct images *m = ctx;
    int index = -1;
    while ((index = builder_next(m)) >= 0) {
        struct err e = {0};
        int result = build_chain(m, index, &e);
        if (result < 0) {
            log_error("an image could not be built", "image", m->presets.images[index].tag, "error",
                      e.msg);
        }
        {
            LOCK_GUARD(&m->lock);
            m->work[index] = (struct images_work){0};
            (void)snprintf(m->work[index].error, sizeof(m->work[index].error), "%s",
                           result < 0 ? e.msg : "");
        }
        (void)malloc_trim(0);
    }
    return NULL;
}

struct images *images_start(const struct config *config, struct docker *docker)
{
    struct images *m = mem_alloc(sizeof(*m));
    m->config = config;
    m->docker = docker;
    (void)pthread_mutex_init(&m->lock, NULL);
    thread_cond_init(&m->wake);
    if (presets_load(config, &m->presets, &m->load_error) < 0) {
        (void)err_wrap(&m->load_error, "SANDBOXD_PRESETS_DIR %s", config->presets_dir);
        m->load_error.code = ERR_UNAVAILABLE;
        m->presets.count = 0;
        log_error("no image is known", "error", m->load_error.msg);
    } else {
        m->load_error = (struct err){0};
    }
    (void)malloc_trim(0);
    m->thread = thread_start("builder", builder_run, m);
    return m;
}

void images_stop(struct images *m)
{
    if (!m) {
        return;
    }
    {
        LOCK_GUARD(&m->lock);
        atomic_store(&m->is_stopping, true);
        (void)pthread_cond_signal(&m->wake);
    }
    (void)pthread_join(m->thread, NULL);
    (void)pthread_cond_destroy(&m->wake);
    (void)pthread_mutex_destroy(&m->lock);
    free(m);
}
