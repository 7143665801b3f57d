/*
 * The bridge of the sandboxes. Docker owns it; what is not ours is never touched. Any thread.
 */
#include "engine/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/subnet.h"
#include "lib/fd.h"
#include "lib/json_write.h"
#include "lib/log.h"
#include "lib/thread.h"

#define BODY_BYTES_MAX    4096
#define ROUTES_BYTES_MAX  (1UL << 20)
#define OPTION_NAME       "com.docker.network.bridge.name"
#define OPTION_ICC        "com.docker.network.bridge.enable_icc"
#define OPTION_MASQUERADE "com.docker.network.bridge.enable_ip_masquerade"
#define LABEL_INSTANCE    "sandboxd.instance"

static pthread_mutex_t network_lock = PTHREAD_MUTEX_INITIALIZER;

void network_body(const struct config *config, const char *subnet, struct buf *out)
{
    struct json_writer w;
    json_begin(&w, out);
    json_object(&w, NULL);
    json_text(&w, "Name", config->bridge);
    json_bool(&w, "CheckDuplicate", true);
    json_text(&w, "Driver", "bridge");
    json_bool(&w, "EnableIPv6", false);
    json_object(&w, "IPAM");
    json_text(&w, "Driver", "default");
    json_array(&w, "Config");
    json_object(&w, NULL);
    json_text(&w, "Subnet", subnet);
    json_object_end(&w);
    json_array_end(&w);
    json_object_end(&w);
    json_object(&w, "Options");
    json_text(&w, OPTION_NAME, config->bridge);
    json_text(&w, OPTION_ICC, "false");
    json_text(&w, OPTION_MASQUERADE, "true");
    json_object_end(&w);
    json_object(&w, "Labels");
    json_text(&w, LABEL_INSTANCE, config->data_dir);
    json_object_end(&w);
    json_object_end(&w);
}

static bool option_is(const struct json_value *network, const char *name, const char *wanted)
{
    return str_is(json_get_str(json_get(network, "Options"), name), wanted);
}

int network_check(const struct json_value *network, const struct config *config,
                  struct network *ret, struct err *e)
{
    struct str id = json_get_str(network, "Id");
    struct str subnet =
        json_get_str(json_at(json_path(network, "IPAM", "Config", NULL), 0), "Subnet");
    struct str owner = json_get_str(json_get(network, "Labels"), LABEL_INSTANCE);
    if (!str_is(owner, config->data_dir)) {
        return err_set(e, ERR_CONFLICT, 0,
                       "a Docker network named %s exists and is not this installation's: set "
                       "SANDBOXD_BRIDGE to another name, or remove it (docker network rm %s)",
                       config->bridge, config->bridge);
    }
    if (!id.ptr || id.len >= sizeof(ret->id) || subnet.len >= sizeof(ret->subnet) ||
        !str_is(json_get_str(network, "Driver"), "bridge") ||
        !option_is(network, OPTION_NAME, config->bridge) ||
        !option_is(network, OPTION_ICC, "false")) {
        return err_set(e, ERR_CONFLICT, 0,
                       "the Docker network %s is not as sandboxd makes it: stop the sandboxes and "
                       "remove it (docker network rm %s); it is made again",
                       config->bridge, config->bridge);
    }
    (void)snprintf(ret->id, sizeof(ret->id), "%.*s", STR_FMT(id));
    (void)snprintf(ret->subnet, sizeof(ret->subnet), "%.*s", STR_FMT(subnet));
    return 0;
}

int network_inspect(struct docker *docker, const struct config *config, struct network *ret,
                    struct err *e)
{
    char path[128];
    struct json_doc *doc AUTO(json_doc) = NULL;
    (void)snprintf(path, sizeof(path), "/networks/%s", config->bridge);
    if (docker_json(docker, "GET", path, NULL, &doc, e) < 0) {
        return -1;
    }
    /* The engine also finds networks by the beginning of their id. */
    if (!doc || !str_is(json_get_str(json_root(doc), "Name"), config->bridge)) {
        return err_set(e, ERR_NOT_FOUND, 0, "no network %s", config->bridge);
    }
    return network_check(json_root(doc), config, ret, e);
}

static int network_choose(struct docker *docker, const struct config *config,
                          char ret_subnet[ALLOW_TEXT_BYTES], struct err *e)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    struct subnet_taken *taken AUTOFREE = mem_alloc(sizeof(*taken));
    char *routes AUTOFREE = NULL;
    size_t len = 0;
    struct allow_prefix chosen;
    if (*config->subnet) {
        (void)snprintf(ret_subnet, ALLOW_TEXT_BYTES, "%s", config->subnet);
        return 0;
    }
    if (docker_json(docker, "GET", "/networks", NULL, &doc, e) < 0 ||
        fd_read_file("/proc/net/route", ROUTES_BYTES_MAX, &routes, &len, e) < 0) {
        return -1;
    }
    if (doc) {
        subnet_take_networks(taken, json_root(doc));
    }
    subnet_take_routes(taken, str_n(routes, len));
    if (subnet_choose(taken, &chosen, e) < 0) {
        return -1;
    }
    (void)allow_prefix_text(&chosen, ret_subnet);
    return 0;
}

static int network_create(struct docker *docker, const struct config *config, struct err *e)
{
    char subnet[ALLOW_TEXT_BYTES];
    BUF_AUTO(body, BODY_BYTES_MAX);
    if (network_choose(docker, config, subnet, e) < 0) {
        return -1;
    }
    network_body(config, subnet, &body);
    if (docker_do(docker, "POST", "/networks/create", &body, 0, e) < 0) {
        return -1;
    }
    log_info("made the bridge of the sandboxes", "bridge", config->bridge, "subnet", subnet);
    return 0;
}

int network_ensure(struct docker *docker, const struct config *config, struct network *ret,
                   struct err *e)
{
    struct err why;
    LOCK_GUARD(&network_lock);
    if (network_inspect(docker, config, ret, &why) == 0) {
        return 0;
    }
    if (why.code != ERR_NOT_FOUND) {
        *e = why;
        return err_wrap(e, "network %s", config->bridge);
    }
    if (network_create(docker, config, e) < 0 || network_inspect(docker, config, ret, e) < 0) {
        return err_wrap(e, "network %s", config->bridge);
    }
    return 0;
}

static bool bridge_name_is_plain(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (name.ptr[i] <= ' ' || name.ptr[i] == '"' || name.ptr[i] == '\\' || name.ptr[i] == '*' ||
            name.ptr[i] >= 0x7f) {
            return false;
        }
    }
    return name.len > 0 && name.len < CONFIG_BRIDGE_BYTES;
}

void network_list_bridges(const struct json_value *networks, const char *own, struct buf *out)
{
    for (size_t i = 0; i < json_count(networks); i++) {
        const struct json_value *network = json_at(networks, i);
        struct str name = json_get_str(json_get(network, "Options"), OPTION_NAME);
        char made[CONFIG_BRIDGE_BYTES];
        if (!str_is(json_get_str(network, "Driver"), "bridge")) {
            continue;
        }
        if (!name.ptr) {
            (void)snprintf(made, sizeof(made), "br-%.*s", 12,
                           json_get_str(network, "Id").len >= 12 ? json_get_str(network, "Id").ptr
                                                                 : "");
            name = str_of(made);
        }
        if (bridge_name_is_plain(name) && !str_is(name, own)) {
            buf_printf(out, "%s\"%.*s\"", out->len > 0 ? ", " : "", STR_FMT(name));
        }
    }
}

int network_other_bridges(struct docker *docker, const struct config *config, struct buf *out,
                          struct err *e)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    if (docker_json(docker, "GET", "/networks", NULL, &doc, e) < 0) {
        return -1;
    }
    if (doc) {
        network_list_bridges(json_root(doc), config->bridge, out);
    }
    return 0;
}
