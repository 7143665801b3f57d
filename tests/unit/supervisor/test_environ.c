/*
 * Environments and the settings they come from.
 */
#include "supervisor/environ.h"
#include "supervisor/seed.h"
#include "supervisor/settings.h"
#include "tests/unit/supervisor/test.h"

static const char *find(char **env, const char *key)
{
    const char *found = NULL;
    size_t len = strlen(key);

    for (size_t i = 0; env[i]; i++) {
        if (strncmp(env[i], key, len) == 0 && env[i][len] == '=') {
            assert_null(found); /* never twice */
            found = env[i] + len + 1;
        }
    }
    return found;
}

static void an_environment_is_built_in_order(void **state)
{
    static const char *const base[] = {
        "PATH=/image/bin",      "HOSTNAME=s-1", "HOME=/root", "A=image",
        "SANDBOXD_DATA_DIR=/x", "rubbish",      "=x",         NULL};
    static const char *const settings[] = {"A=app", "PORT=1",  "HOST=1.2.3.4",
                                           "B=a=b", "PATHX=y", NULL};
    struct environ_options options = {.base = base, .settings = settings, .port = 3000};
    char **env ENVIRON_AUTO = environ_build(&options);

    (void)state;
    assert_non_null(env);
    assert_string_equal(find(env, "PATH"), "/image/bin");
    assert_string_equal(find(env, "HOME"), "/home/sandbox");
    assert_string_equal(find(env, "TMPDIR"), "/home/sandbox/.tmp");
    assert_string_equal(find(env, "LANG"), "C.UTF-8");
    assert_string_equal(find(env, "A"), "app");
    assert_string_equal(find(env, "B"), "a=b");
    assert_string_equal(find(env, "PATHX"), "y");
    assert_string_equal(find(env, "HOST"), "1.2.3.4");
    assert_string_equal(find(env, "PORT"), "3000");
    assert_null(find(env, "HOSTNAME"));
    assert_null(find(env, "SANDBOXD_DATA_DIR"));
}

static void a_worker_gets_no_port(void **state)
{
    static const char *const base[] = {NULL};
    struct environ_options options = {.base = base};
    char **env ENVIRON_AUTO = environ_build(&options);

    (void)state;
    assert_non_null(env);
    assert_null(find(env, "PORT"));
    assert_null(find(env, "HOST"));
    assert_non_null(find(env, "PATH"));
}

static void pairs_are_checked(void **state)
{
    (void)state;
    assert_true(environ_is_pair(STR("A=")));
    assert_true(environ_is_pair(STR("_a9=x=y\n")));
    assert_false(environ_is_pair(STR("")));
    assert_false(environ_is_pair(STR("A")));
    assert_false(environ_is_pair(STR("=x")));
    assert_false(environ_is_pair(STR("9A=x")));
    assert_false(environ_is_pair(STR("A B=x")));
    assert_false(environ_is_pair(STR("A=x\0y")));
}

static int parse(struct buf *out, struct record_writer *w, struct app_settings *ret, struct err *e)
{
    struct record r;
    struct str frame;

    assert_true(record_end(w));
    assert_int_equal(record_next(out, &frame, NULL), 1);
    assert_int_equal(record_parse(frame, &r, NULL), 0);
    return settings_parse(&r, ret, e);
}

static void settings_are_taken(void **state)
{
    BUF_AUTO(out, 65536);
    struct app_settings s = {0};
    struct app_settings other = {0};
    struct record_writer w = record_begin(&out, "configure");

    (void)state;
    record_adds(&w, "template", "react-vite");
    record_adds(&w, "web_port", "3000");
    record_adds(&w, "port", "3000");
    record_adds(&w, "port", "4000");
    record_adds(&w, "env", "A=1");
    record_adds(&w, "unknown", "ignored");
    assert_int_equal(parse(&out, &w, &s, NULL), 0);
    assert_string_equal(s.template_name, "react-vite");
    assert_int_equal(s.web_port, 3000);
    assert_int_equal(s.port_count, 2);
    assert_string_equal(s.env[0], "A=1");
    assert_null(s.env[1]);
    buf_reset(&out);
    w = record_begin(&out, "configure");
    assert_int_equal(parse(&out, &w, &other, NULL), 0);
    assert_false(other.config.is_given);
    assert_false(settings_same_env(&s, &other));
    assert_true(settings_same_env(&s, &s));
    settings_done(&s);
    settings_done(&other);
}

static void a_config_is_taken(void **state)
{
    BUF_AUTO(out, 65536);
    struct app_settings s = {0};
    struct record_writer w = record_begin(&out, "configure");

    (void)state;
    record_adds(&w, "config_version", "7");
    record_adds(&w, "config", "URL=http://x/?a=b");
    record_adds(&w, "secret", "KEY=line one\nline two");
    record_adds(&w, "mask", "of an agent");
    assert_int_equal(parse(&out, &w, &s, NULL), 0);
    assert_true(s.config.is_given);
    assert_int_equal(s.config.version, 7);
    assert_string_equal(s.config.vars[0], "URL=http://x/?a=b");
    assert_null(s.config.vars[1]);
    assert_string_equal(s.config.secrets[0], "KEY=line one\nline two");
    assert_string_equal(s.config.masks[0], "of an agent");
    settings_done(&s);
    assert_false(s.config.is_given);
}

static void a_config_wins_over_settings_but_not_over_us(void **state)
{
    static const char *const base[] = {"A=image", NULL};
    static const char *const settings[] = {"A=app", NULL};
    static const char *const config[] = {"A=owner", "PORT=1", NULL};
    static const char *const secrets[] = {"B=a=b", NULL};
    struct environ_options options = {
        .base = base, .settings = settings, .config = config, .secrets = secrets, .port = 3000};
    char **env ENVIRON_AUTO = environ_build(&options);

    (void)state;
    assert_non_null(env);
    assert_string_equal(find(env, "A"), "owner");
    assert_string_equal(find(env, "B"), "a=b");
    assert_string_equal(find(env, "PORT"), "3000");
}

static void wrong_settings_are_refused(void **state)
{
    static const char *const wrong[][2] = {
        {"template", "../x"},
        {"template", "A"},
        {"template", "-x"},
        {"web_port", "65536"},
        {"web_port", "x"},
        {"port", "0"},
        {"port", ""},
        {"env", "A"},
        {"env", "9=x"},
        {"config_version", "x"},
        {"config_version", "-1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        BUF_AUTO(out, 65536);
        struct app_settings s = {0};
        struct err e = {0};
        struct record_writer w = record_begin(&out, "configure");

        record_adds(&w, wrong[i][0], wrong[i][1]);
        if (parse(&out, &w, &s, &e) == 0) {
            fail_msg("taken: %s=%s", wrong[i][0], wrong[i][1]);
        }
        assert_non_null(strstr(e.msg, wrong[i][0]));
        assert_null(s.env);
    }
    BUF_AUTO(out, 65536);
    struct app_settings s = {0};
    struct err e = {0};
    struct record_writer w = record_begin(&out, "configure");
    record_adds(&w, "config_version", "1");
    record_adds(&w, "config", "A B=secret");
    assert_int_equal(parse(&out, &w, &s, &e), -1);
    assert_null(strstr(e.msg, "secret"));
    assert_false(s.config.is_given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_environment_is_built_in_order),
        cmocka_unit_test(a_worker_gets_no_port),
        cmocka_unit_test(pairs_are_checked),
        cmocka_unit_test(settings_are_taken),
        cmocka_unit_test(a_config_is_taken),
        cmocka_unit_test(a_config_wins_over_settings_but_not_over_us),
        cmocka_unit_test(wrong_settings_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
