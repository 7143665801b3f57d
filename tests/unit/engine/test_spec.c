/*
 * Tests of what a sandbox's container is, of its hash, and of reading one back. One thread.
 */
#include "engine/inspect.h"
#include "engine/spec.h"
#include "tests/unit/engine/test.h"

static struct spec_request request(void)
{
    struct spec_request r = {.uid = 2000000001,
                             .image = "react-vite",
                             .init = "5009c74e732e096f",
                             .app_name = "My \"App\""};
    assert_true(ulid_parse(STR(TEST_ID), &r.id));
    return r;
}

static struct spec spec_of(const struct config *config)
{
    return (struct spec){.config = config,
                         .request = request(),
                         .tag = "sandboxd-react-vite:0123456789ab",
                         .image_id = "sha256:66f5",
                         .memory_bytes = 1ULL << 30,
                         .nofile = 20000};
}

static bool list_has(const struct json_value *list, const char *wanted)
{
    for (size_t i = 0; i < json_count(list); i++) {
        if (str_is(json_as_str(json_at(list, i)), wanted)) {
            return true;
        }
    }
    return false;
}

static int64_t number(const struct json_value *object, const char *key)
{
    int64_t value = -1;
    assert_true(json_get_int(object, key, &value));
    return value;
}

static void assert_flag(const struct json_value *object, const char *key, bool wanted)
{
    bool value = !wanted;
    assert_true(json_get_bool(object, key, &value));
    assert_int_equal(value, wanted);
}

static void test_isolation(void **state)
{
    (void)state;
    struct config config = test_config();
    struct spec spec = spec_of(&config);
    struct err e;
    BUF_AUTO(body, 32768);
    assert_int_equal(spec_write(&spec, &body, &e), 0);
    struct json_doc *doc AUTO(json_doc) = test_json(body.ptr);
    const struct json_value *v = json_root(doc);
    const struct json_value *host = json_get(v, "HostConfig");
    assert_true(str_is(json_get_str(v, "User"), "2000000001:2000000001"));
    assert_true(str_is(json_get_str(v, "Hostname"), "s-" TEST_ID));
    assert_true(str_is(json_get_str(v, "Image"), "sandboxd-react-vite:0123456789ab"));
    assert_true(list_has(json_get(v, "Entrypoint"), "/run/sandboxd/init/sandboxd-init"));
    assert_int_equal(json_count(json_get(v, "Cmd")), 0);
    assert_flag(host, "ReadonlyRootfs", true);
    assert_flag(host, "Privileged", false);
    assert_flag(host, "Init", false);
    assert_true(list_has(json_get(host, "CapDrop"), "ALL"));
    assert_null(json_get(host, "CapAdd"));
    assert_true(list_has(json_get(host, "SecurityOpt"), "no-new-privileges"));
    assert_int_equal(json_count(json_get(host, "SecurityOpt")), 1); /* default seccomp stays */
    assert_int_equal(number(host, "Memory"), 1 << 30);
    assert_int_equal(number(host, "MemorySwap"), 1 << 30);
    assert_int_equal(number(host, "PidsLimit"), 1024);
    assert_int_equal(number(host, "CpuShares"), 100);
    assert_null(json_get(host, "NanoCpus"));
    assert_null(json_get(host, "Runtime"));
    assert_null(json_get(host, "PortBindings"));
    assert_true(str_is(json_get_str(host, "NetworkMode"), "sbx0"));
    assert_true(str_contains(json_get_str(json_get(host, "Tmpfs"), "/tmp"), STR("noexec")));
    assert_true(
        str_starts(json_get_str(json_get(host, "Tmpfs"), "/home/sandbox/.sandboxd"), STR("ro,")));
}

static void test_mounts(void **state)
{
    (void)state;
    static const char *const targets[][2] = {
        {"/home/sandbox", "/var/lib/sandboxed/workspaces/" TEST_ID},
        {"/run/sandboxd/control", "/var/lib/sandboxed/run/control/" TEST_ID},
        {"/run/sandboxd/in", "/var/lib/sandboxed/run/in/" TEST_ID},
        {"/run/sandboxd/out", "/var/lib/sandboxed/run/out/" TEST_ID},
        {"/run/sandboxd/init", "/var/lib/sandboxed/init/5009c74e732e096f"},
        {"/etc/passwd", "/var/lib/sandboxed/run/etc/" TEST_ID "/passwd"},
        {"/etc/group", "/var/lib/sandboxed/run/etc/" TEST_ID "/group"},
        {"/etc/resolv.conf", "/var/lib/sandboxed/run/etc/" TEST_ID "/resolv.conf"},
    };
    struct config config = test_config();
    config.runsc = true;
    struct spec spec = spec_of(&config);
    struct err e;
    BUF_AUTO(body, 32768);
    assert_int_equal(spec_write(&spec, &body, &e), 0);
    struct json_doc *doc AUTO(json_doc) = test_json(body.ptr);
    const struct json_value *host = json_get(json_root(doc), "HostConfig");
    const struct json_value *mounts = json_get(host, "Mounts");
    assert_true(str_is(json_get_str(host, "Runtime"), "runsc"));
    assert_int_equal(json_count(mounts), ARRAY_LEN(targets));
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        const struct json_value *mount = json_at(mounts, i);
        assert_true(str_is(json_get_str(mount, "Type"), "bind"));
        assert_true(str_is(json_get_str(mount, "Target"), targets[i][0]));
        assert_true(str_is(json_get_str(mount, "Source"), targets[i][1]));
        assert_flag(mount, "ReadOnly", i != 0);
    }
}

static void test_hash(void **state)
{
    (void)state;
    struct config config = test_config();
    struct config other = config;
    char first[CRYPTO_SHA256_HEX];
    char second[CRYPTO_SHA256_HEX];
    struct err e;
    struct spec spec = spec_of(&config);
    assert_int_equal(spec_hash(&spec, first, &e), 0);
    /* A new name of the app needs no new container. */
    (void)memcpy(spec.request.app_name, "other", 6);
    assert_int_equal(spec_hash(&spec, second, &e), 0);
    assert_string_equal(first, second);
    struct spec changed[8];
    for (size_t i = 0; i < ARRAY_LEN(changed); i++) {
        changed[i] = spec;
    }
    changed[0].image_id = "sha256:66f6";
    changed[1].memory_bytes++;
    changed[2].cpus_milli = 500;
    changed[3].nofile = 0;
    changed[4].request.uid++;
    changed[5].request.init[0] = '6';
    other.runsc = true;
    changed[6].config = &other;
    changed[7].tag = "sandboxd-react-vite:ba9876543210";
    for (size_t i = 0; i < ARRAY_LEN(changed); i++) {
        assert_int_equal(spec_hash(&changed[i], second, &e), 0);
        assert_string_not_equal(first, second);
    }
}

static void test_request_label(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "",
        "1",
        "1 a 5009c74e732e096f 0",
        "1 a 5009c74e732e096f 0 0 0",
        "x a 5009c74e732e096f 0 0",
        "1 a 5009 0 0",
        "1  5009c74e732e096f 0 0",
        "1 a 5009c74e732e096f 0 0 ",
        "1 a ../../../../../x 0 0",
    };
    struct spec_request wanted = request();
    struct spec_request got;
    char text[SPEC_REQUEST_BYTES];
    wanted.memory_bytes = 5;
    wanted.cpus_milli = 7;
    spec_request_write(&wanted, text);
    assert_true(spec_request_parse(str_of(text), &got));
    assert_int_equal(got.uid, wanted.uid);
    assert_string_equal(got.image, wanted.image);
    assert_string_equal(got.init, wanted.init);
    assert_int_equal(got.memory_bytes, 5);
    assert_int_equal(got.cpus_milli, 7);
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        assert_false(spec_request_parse(str_of(refused[i]), &got));
    }
}

#define CONTAINER_ID "7ab8cf26f7a5ae5f00812349f8335c9311d6d95f1b313763748074673da7603e"
static const char container[] =
    "{\"Id\":\"" CONTAINER_ID "\",\"State\":{\"Status\":\"exited\",\"Running\":false,\"Pid\":0,"
    "\"ExitCode\":137,\"OOMKilled\":true,\"Error\":\"words\","
    "\"StartedAt\":\"2026-11-29T19:35:41.446Z\","
    "\"FinishedAt\":\"2026-11-29T19:35:42Z\"},\"Config\":{\"Labels\":{"
    "\"sandboxd.instance\":\"/var/lib/sandboxed\",\"sandboxd.sandbox\":\"" TEST_ID "\","
    "\"sandboxd.spec\":\"abc\",\"sandboxd.app-name\":\"todo\","
    "\"sandboxd.request\":\"2000000001 react-vite 5009c74e732e096f 0 0\"}},"
    "\"NetworkSettings\":{\"Networks\":{\"sbx0\":{\"NetworkID\":\"971377d5498d\"}}}}";

static void test_inspect(void **state)
{
    (void)state;
    struct config config = test_config();
    struct inspect got;
    struct ulid id;
    struct err e;
    assert_true(ulid_parse(STR(TEST_ID), &id));
    struct json_doc *doc AUTO(json_doc) = test_json(container);
    assert_int_equal(inspect_parse(json_root(doc), &config, &id, &got, &e), 0);
    assert_true(got.is_ours);
    assert_int_equal(got.state, INSPECT_EXITED);
    assert_int_equal(got.exit_code, 137);
    assert_true(got.is_oom);
    assert_int_equal(got.pid, 0);
    assert_int_equal(got.started_at_ms, 1795980941446);
    assert_string_equal(got.error, "words");
    assert_string_equal(got.network_id, "971377d5498d");
    assert_int_equal(got.request.uid, 2000000001);
    assert_string_equal(got.request.app_name, "todo");
    config.data_dir = "/srv/other";
    assert_int_equal(inspect_parse(json_root(doc), &config, &id, &got, &e), 0);
    assert_false(got.is_ours);
}

/* One item of the engine's list: only a sandbox of this instance, by labels and name, is one. */
static void test_inspect_item(void **state)
{
    (void)state;
    struct config config = test_config();
    struct inspect got;
    struct json_doc *doc AUTO(json_doc) = test_json(
        "[{\"Id\":\"abc\",\"State\":\"running\",\"Names\":[\"/s-" TEST_ID "\"],\"Labels\":{"
        "\"sandboxd.instance\":\"/var/lib/sandboxed\",\"sandboxd.sandbox\":\"" TEST_ID "\"}},"
        "{\"Id\":\"abc\",\"State\":\"running\",\"Names\":[\"/copy\"],\"Labels\":{"
        "\"sandboxd.instance\":\"/var/lib/sandboxed\",\"sandboxd.sandbox\":\"" TEST_ID "\"}},"
        "{\"Id\":\"abc\",\"State\":\"running\",\"Names\":[\"/s-" TEST_ID "\"],\"Labels\":{"
        "\"sandboxd.instance\":\"/srv/other\",\"sandboxd.sandbox\":\"" TEST_ID "\"}},"
        "{\"Id\":\"abc\",\"Names\":null,\"Labels\":{\"sandboxd.sandbox\":\"x\"}}, null, 7]");
    assert_true(inspect_parse_item(json_at(json_root(doc), 0), &config, &got));
    assert_string_equal(got.id.text, TEST_ID);
    assert_string_equal(got.container_id, "abc");
    assert_int_equal(got.state, INSPECT_RUNNING);
    for (size_t i = 1; i < json_count(json_root(doc)); i++) {
        assert_false(inspect_parse_item(json_at(json_root(doc), i), &config, &got));
    }
}

static const char long_id[] = "{\"Id\":\"" CONTAINER_ID "a\",\"State\":{\"Status\":\"x\"}}";

static void test_inspect_strange(void **state)
{
    (void)state;
    static const char *const refused[] = {"{}", "[]", "{\"Id\":7}", "{\"Id\":\"a\",\"State\":{}}",
                                          long_id};
    struct config config = test_config();
    struct inspect got;
    struct ulid id;
    struct err e;
    assert_true(ulid_parse(STR(TEST_ID), &id));
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct json_doc *doc AUTO(json_doc) = test_json(refused[i]);
        assert_int_equal(inspect_parse(json_root(doc), &config, &id, &got, &e), -1);
    }
    struct json_doc *doc AUTO(json_doc) =
        test_json("{\"Id\":\"a\",\"State\":{\"Status\":\"running\",\"Pid\":-5},"
                  "\"Config\":{\"Labels\":null}}");
    assert_int_equal(inspect_parse(json_root(doc), &config, &id, &got, &e), 0);
    assert_false(got.is_ours);
    assert_int_equal(got.pid, 0);
    assert_int_equal(got.request.uid, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_isolation),
        cmocka_unit_test(test_mounts),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_request_label),
        cmocka_unit_test(test_inspect),
        cmocka_unit_test(test_inspect_item),
        cmocka_unit_test(test_inspect_strange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
