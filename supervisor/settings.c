/*
 * A `configure` record into settings. It must never keep a pointer into the record. One thread: PID
 * 1's.
 */
#include "supervisor/settings.h"

#include <stdlib.h>
#include <string.h>

#include "lib/mem.h"
#include "supervisor/environ.h"
#include "supervisor/seed.h"

#define SETTINGS_ENV_MAX    256
#define SETTINGS_CONFIG_MAX 128 /* of each kind */

static int parse_template(const struct record *r, struct app_settings *s, struct err *e)
{
    struct str name = record_get(r, "template");

    if (name.len == 0) {
        return 0;
    }
    if (!seed_is_template(name)) {
        return err_set(e, ERR_INVALID, 0, "configure: not a template's name");
    }
    memcpy(s->template_name, name.ptr, name.len);
    s->template_name[name.len] = '\0';
    return 0;
}

static int parse_ports(const struct record *r, struct app_settings *s, struct err *e)
{
    struct str value;
    size_t pos = 0;
    uint64_t port = 0;

    value = record_get(r, "web_port");
    if (value.len > 0 && !str_to_u64(value, 65535, &port)) {
        return err_set(e, ERR_INVALID, 0, "configure: web_port is not a port");
    }
    s->web_port = (uint16_t)port;
    while (record_each_of(r, &pos, "port", &value)) {
        if (!str_to_u64(value, 65535, &port) || port == 0) {
            return err_set(e, ERR_INVALID, 0, "configure: port is not a port");
        }
        if (s->port_count < PORTWATCH_DECLARED_MAX) {
            s->ports[s->port_count++] = (uint16_t)port;
        }
    }
    return 0;
}

static int parse_pairs(char *const *pairs, const char *key, struct err *e)
{
    for (size_t i = 0; pairs[i]; i++) {
        if (!environ_is_pair(str_of(pairs[i]))) {
            return err_set(e, ERR_INVALID, 0, "configure: %s is not KEY=value", key);
        }
    }
    return 0;
}

static int parse_env(const struct record *r, struct app_settings *s, struct err *e)
{
    s->env = environ_copy(r, "env", SETTINGS_ENV_MAX);
    if (!s->env) {
        return err_set(e, ERR_INVALID, 0, "configure: env holds a NUL, or more than %d of them",
                       SETTINGS_ENV_MAX);
    }
    return parse_pairs(s->env, "env", e);
}

/* No config_version: this record does not speak of it, and what is in force stays. */
static int parse_config(const struct record *r, struct app_config *c, struct err *e)
{
    int64_t version = 0;

    if (record_get(r, "config_version").len == 0) {
        return 0;
    }
    if (!record_get_i64(r, "config_version", &version) || version < 0) {
        return err_set(e, ERR_INVALID, 0, "configure: config_version is not a number");
    }
    c->is_given = true;
    c->version = version;
    c->vars = environ_copy(r, "config", SETTINGS_CONFIG_MAX);
    c->secrets = environ_copy(r, "secret", SETTINGS_CONFIG_MAX);
    c->masks = environ_copy(r, "mask", SETTINGS_CONFIG_MAX);
    if (!c->vars || !c->secrets || !c->masks) {
        return err_set(e, ERR_INVALID, 0,
                       "configure: config, secret or mask holds a NUL, or more than %d of them",
                       SETTINGS_CONFIG_MAX);
    }
    return parse_pairs(c->vars, "config", e) != 0 ? -1 : parse_pairs(c->secrets, "secret", e);
}

int settings_parse(const struct record *r, struct app_settings *ret, struct err *e)
{
    *ret = (struct app_settings){0};
    if (parse_template(r, ret, e) != 0 || parse_ports(r, ret, e) != 0 ||
        parse_env(r, ret, e) != 0 || parse_config(r, &ret->config, e) != 0) {
        settings_done(ret);
        return -1;
    }
    return 0;
}

void settings_config_done(struct app_config *c)
{
    char **lists[] = {c->vars, c->secrets, c->masks};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        environ_wipe(lists[i]);
        environ_free(lists[i]);
    }
    *c = (struct app_config){0};
}

void settings_done(struct app_settings *s)
{
    settings_config_done(&s->config);
    environ_free(s->env);
    *s = (struct app_settings){0};
}

bool settings_same_env(const struct app_settings *a, const struct app_settings *b)
{
    size_t i = 0;

    if (!a->env || !b->env) {
        return a->env == b->env;
    }
    while (a->env[i] && b->env[i] && strcmp(a->env[i], b->env[i]) == 0) {
        i++;
    }
    return !a->env[i] && !b->env[i];
}
