/*
 * What Docker says about one container. Any thread.
 */
#include "engine/inspect.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

const char *inspect_state_name(enum inspect_state state)
{
    static const char *const names[] = {
        [INSPECT_MISSING] = "missing", [INSPECT_CREATED] = "created", [INSPECT_RUNNING] = "running",
        [INSPECT_PAUSED] = "paused",   [INSPECT_EXITED] = "exited",
    };
    return names[state];
}

/* "restarting" cannot happen (no restart policy); "removing" and "dead" are on their way out. */
static enum inspect_state state_parse(struct str status)
{
    if (str_is(status, "created")) {
        return INSPECT_CREATED;
    }
    if (str_is(status, "paused")) {
        return INSPECT_PAUSED;
    }
    return str_is(status, "running") || str_is(status, "restarting") ? INSPECT_RUNNING
                                                                     : INSPECT_EXITED;
}

static void copy(char *to, size_t size, struct str from)
{
    size_t len = from.len < size ? from.len : size - 1;
    if (from.ptr) {
        memcpy(to, from.ptr, len);
    }
    to[from.ptr ? len : 0] = '\0';
}

static void inspect_parse_labels(const struct json_value *labels, const struct config *config,
                                 struct inspect *ret)
{
    ret->is_ours = str_is(json_get_str(labels, SPEC_LABEL_INSTANCE), config->data_dir) &&
                   str_is(json_get_str(labels, SPEC_LABEL_SANDBOX), ret->id.text);
    copy(ret->spec, sizeof(ret->spec), json_get_str(labels, SPEC_LABEL_SPEC));
    if (!spec_request_parse(json_get_str(labels, SPEC_LABEL_REQUEST), &ret->request)) {
        ret->request = (struct spec_request){0};
    }
    ret->request.id = ret->id;
    copy(ret->request.app_name, sizeof(ret->request.app_name),
         json_get_str(labels, SPEC_LABEL_APP_NAME));
}

int inspect_parse(const struct json_value *v, const struct config *config, const struct ulid *id,
                  struct inspect *ret, struct err *e)
{
    const struct json_value *state = json_get(v, "State");
    struct str container_id = json_get_str(v, "Id");
    struct str status = json_get_str(state, "Status");
    int64_t pid = 0;
    *ret = (struct inspect){.id = *id};
    if (!container_id.ptr || container_id.len >= sizeof(ret->container_id) || !status.ptr) {
        return err_set(e, ERR_IO, 0, "Docker describes the container without an id and a state");
    }
    copy(ret->container_id, sizeof(ret->container_id), container_id);
    ret->state = state_parse(status);
    if (json_get_int(state, "Pid", &pid) && pid > 0 && pid <= INT_MAX) {
        ret->pid = (pid_t)pid;
    }
    (void)json_get_int(state, "ExitCode", &ret->exit_code);
    (void)json_get_bool(state, "OOMKilled", &ret->is_oom);
    ret->started_at_ms = docker_time_ms(json_get_str(state, "StartedAt"));
    ret->finished_at_ms = docker_time_ms(json_get_str(state, "FinishedAt"));
    copy(ret->error, sizeof(ret->error), json_get_str(state, "Error"));
    inspect_parse_labels(json_path(v, "Config", "Labels", NULL), config, ret);
    const struct json_value *networks = json_path(v, "NetworkSettings", "Networks", NULL);
    copy(ret->network_id, sizeof(ret->network_id),
         json_get_str(json_get(networks, config->bridge), "NetworkID"));
    return 0;
}

static bool item_has_name(const struct json_value *v, const struct ulid *id)
{
    const struct json_value *names = json_get(v, "Names");
    char name[SPEC_NAME_BYTES + 1] = "/";
    spec_name(id, name + 1);
    for (size_t i = 0; json_is_array(names) && i < json_count(names); i++) {
        if (str_is(json_as_str(json_at(names, i)), name)) {
            return true;
        }
    }
    return false;
}

bool inspect_parse_item(const struct json_value *v, const struct config *config,
                        struct inspect *ret)
{
    const struct json_value *labels = json_get(v, "Labels");
    struct str container_id = json_get_str(v, "Id");
    struct str state = json_get_str(v, "State");
    struct ulid id;
    if (!ulid_parse(json_get_str(labels, SPEC_LABEL_SANDBOX), &id) || !container_id.ptr ||
        container_id.len >= sizeof(ret->container_id) || !state.ptr || !item_has_name(v, &id)) {
        return false;
    }
    *ret = (struct inspect){.id = id, .state = state_parse(state)};
    copy(ret->container_id, sizeof(ret->container_id), container_id);
    inspect_parse_labels(labels, config, ret);
    return ret->is_ours;
}

int inspect_container(struct docker *docker, const struct config *config, const struct ulid *id,
                      struct inspect *ret, struct err *e)
{
    char name[SPEC_NAME_BYTES];
    char path[SPEC_NAME_BYTES + 32];
    struct err why;
    struct json_doc *doc AUTO(json_doc) = NULL;
    spec_name(id, name);
    (void)snprintf(path, sizeof(path), "/containers/%s/json", name);
    if (docker_json(docker, "GET", path, NULL, &doc, &why) < 0) {
        *ret = (struct inspect){.id = *id, .state = INSPECT_MISSING};
        if (why.code == ERR_NOT_FOUND) {
            return 0;
        }
        *e = why;
        return -1;
    }
    if (inspect_parse(json_root(doc), config, id, ret, e) < 0) {
        return -1;
    }
    if (!ret->is_ours) {
        return err_set(e, ERR_CONFLICT, 0,
                       "a container named %s exists and is not of this installation", name);
    }
    return 0;
}
