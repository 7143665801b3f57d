/*
 * What a sandbox's container is. Pure: the engine's isolation is decided here and nowhere else.
 */
#include "engine/spec.h"

#include <stdio.h>
#include <string.h>

#include "lib/json_write.h"

#define SPEC_BODY_BYTES_MAX 32768
#define SPEC_PIDS_MAX       1024
#define SPEC_CPU_SHARES     100
#define SPEC_TMP_OPTIONS    "rw,noexec,nosuid,nodev,size=512m,mode=1777"
#define SPEC_COVER_OPTIONS  "ro,noexec,nosuid,nodev,size=4k,mode=0555"
#define SPEC_PATH \
    "/usr/local/bin:/usr/bin:/bin:/home/sandbox/.local/bin:/home/sandbox/.npm-global/bin"

void spec_name(const struct ulid *id, char ret_name[SPEC_NAME_BYTES])
{
    (void)snprintf(ret_name, SPEC_NAME_BYTES, "s-%s", id->text);
}

void spec_request_write(const struct spec_request *request, char text[SPEC_REQUEST_BYTES])
{
    (void)snprintf(text, SPEC_REQUEST_BYTES, "%llu %s %s %llu %llu",
                   (unsigned long long)request->uid, request->image, request->init,
                   (unsigned long long)request->memory_bytes,
                   (unsigned long long)request->cpus_milli);
}

bool spec_request_parse(struct str text, struct spec_request *ret)
{
    struct str parts[5] = {{0}};
    size_t count = 0;
    *ret = (struct spec_request){0};
    while (count < 5 && str_split(&text, ' ', &parts[count])) {
        count++;
    }
    if (count != 5 || text.ptr || parts[1].len == 0 || parts[1].len >= sizeof(ret->image) ||
        !checks_init_version_is_valid(parts[2]) || !str_to_u64(parts[0], UINT32_MAX, &ret->uid) ||
        !str_to_u64(parts[3], UINT64_MAX, &ret->memory_bytes) ||
        !str_to_u64(parts[4], UINT64_MAX, &ret->cpus_milli)) {
        return false;
    }
    memcpy(ret->image, parts[1].ptr, parts[1].len);
    memcpy(ret->init, parts[2].ptr, parts[2].len);
    return true;
}

static void spec_write_mounts(struct json_writer *w, const struct checks_sources *sources)
{
    json_array(w, "Mounts");
    for (size_t i = 0; i < sources->count; i++) {
        const struct checks_source *source = &sources->items[i];
        json_object(w, NULL);
        json_text(w, "Type", "bind");
        json_text(w, "Source", source->source);
        json_text(w, "Target", source->target);
        json_bool(w, "ReadOnly", source->is_read_only);
        json_object(w, "BindOptions");
        json_text(w, "Propagation", "rprivate");
        json_object_end(w);
        json_object_end(w);
    }
    json_array_end(w);
    json_object(w, "Tmpfs");
    json_text(w, "/tmp", SPEC_TMP_OPTIONS);
    json_text(w, "/home/sandbox/.sandboxd", SPEC_COVER_OPTIONS);
    json_object_end(w);
}

static void spec_write_isolation(struct json_writer *w, const struct config *config)
{
    json_bool(w, "ReadonlyRootfs", true);
    json_bool(w, "Privileged", false);
    json_array(w, "CapDrop");
    json_text(w, NULL, "ALL");
    json_array_end(w);
    json_array(w, "SecurityOpt");
    json_text(w, NULL, "no-new-privileges");
    json_array_end(w);
    json_text(w, "NetworkMode", config->bridge);
    json_text(w, "IpcMode", "private");
    json_text(w, "CgroupnsMode", "private");
    if (config->runsc) {
        json_text(w, "Runtime", "runsc");
    }
}

static void spec_write_limits(struct json_writer *w, const struct spec *spec)
{
    json_int(w, "Memory", (int64_t)spec->memory_bytes);
    json_int(w, "MemorySwap", (int64_t)spec->memory_bytes);
    json_int(w, "PidsLimit", SPEC_PIDS_MAX);
    json_int(w, "CpuShares", SPEC_CPU_SHARES);
    if (spec->cpus_milli > 0) {
        json_int(w, "NanoCpus", (int64_t)spec->cpus_milli * 1000000);
    }
    if (spec->nofile > 0) {
        json_array(w, "Ulimits");
        json_object(w, NULL);
        json_text(w, "Name", "nofile");
        json_int(w, "Soft", (int64_t)spec->nofile);
        json_int(w, "Hard", (int64_t)spec->nofile);
        json_object_end(w);
        json_array_end(w);
    }
}

static void spec_write_host(struct json_writer *w, const struct spec *spec)
{
    struct checks_sources sources;
    checks_sources_list(spec->config, &spec->request.id, spec->request.uid, spec->request.init,
                        &sources);
    json_object(w, "HostConfig");
    spec_write_isolation(w, spec->config);
    spec_write_limits(w, spec);
    spec_write_mounts(w, &sources);
    json_bool(w, "Init", false);
    json_object(w, "RestartPolicy");
    json_text(w, "Name", "no");
    json_object_end(w);
    json_object(w, "LogConfig");
    json_text(w, "Type", "json-file");
    json_object(w, "Config");
    json_text(w, "max-size", "1m");
    json_text(w, "max-file", "2");
    json_object_end(w);
    json_object_end(w);
    json_object_end(w);
}

static void spec_write_process(struct json_writer *w, const struct spec *spec)
{
    char user[48];
    (void)snprintf(user, sizeof(user), "%llu:%llu", (unsigned long long)spec->request.uid,
                   (unsigned long long)spec->request.uid);
    json_text(w, "User", user);
    json_text(w, "WorkingDir", "/home/sandbox");
    json_array(w, "Entrypoint");
    json_text(w, NULL, "/run/sandboxd/init/sandboxd-init");
    json_array_end(w);
    json_array(w, "Cmd");
    json_array_end(w);
    json_array(w, "Env");
    json_text(w, NULL, "PATH=" SPEC_PATH);
    json_text(w, NULL, "HOME=/home/sandbox");
    json_text(w, NULL, "LANG=C.UTF-8");
    json_text(w, NULL, "TMPDIR=/home/sandbox/.tmp");
    json_array_end(w);
    json_text(w, "StopSignal", "SIGTERM");
    json_bool(w, "Tty", false);
    json_bool(w, "OpenStdin", false);
}

static void spec_write_labels(struct json_writer *w, const struct spec *spec, const char *hash)
{
    char request[SPEC_REQUEST_BYTES];
    spec_request_write(&spec->request, request);
    json_object(w, "Labels");
    json_text(w, SPEC_LABEL_INSTANCE, spec->config->data_dir);
    json_text(w, SPEC_LABEL_SANDBOX, spec->request.id.text);
    json_text(w, SPEC_LABEL_APP_NAME, spec->request.app_name);
    json_text(w, SPEC_LABEL_SPEC, hash);
    json_text(w, SPEC_LABEL_REQUEST, request);
    json_object_end(w);
}

/* hash NULL: without the labels, for the hash itself. */
static int spec_write_body(const struct spec *spec, const char *hash, struct buf *out,
                           struct err *e)
{
    char name[SPEC_NAME_BYTES];
    struct json_writer w;
    spec_name(&spec->request.id, name);
    json_begin(&w, out);
    json_object(&w, NULL);
    json_text(&w, "Hostname", name);
    json_text(&w, "Image", spec->tag);
    spec_write_process(&w, spec);
    if (hash) {
        spec_write_labels(&w, spec, hash);
    }
    spec_write_host(&w, spec);
    json_object_end(&w);
    return buf_ok(out) ? 0
                       : err_set(e, ERR_LIMIT, 0, "the description of the container is too long");
}

int spec_hash(const struct spec *spec, char ret_hex[CRYPTO_SHA256_HEX], struct err *e)
{
    BUF_AUTO(body, SPEC_BODY_BYTES_MAX);
    if (spec_write_body(spec, NULL, &body, e) < 0) {
        return -1;
    }
    buf_puts(&body, spec->image_id);
    crypto_sha256_hex(buf_str(&body), ret_hex);
    return buf_ok(&body) ? 0 : err_set(e, ERR_LIMIT, 0, "the image id is too long");
}

int spec_write(const struct spec *spec, struct buf *out, struct err *e)
{
    char hash[CRYPTO_SHA256_HEX];
    if (spec_hash(spec, hash, e) < 0) {
        return -1;
    }
    return spec_write_body(spec, hash, out, e);
}
