/*
 * Tests of the bridge: its description, whose it is, and a free subnet. One thread.
 */
#include "engine/network.h"
#include "engine/subnet.h"
#include "tests/unit/engine/test.h"

static const char ours[] = "{\"Name\":\"sbx0\",\"Id\":\"971377d5498d\",\"Driver\":\"bridge\","
                           "\"IPAM\":{\"Config\":[{\"Subnet\":\"10.201.0.0/20\"}]},"
                           "\"Options\":{\"com.docker.network.bridge.name\":\"sbx0\","
                           "\"com.docker.network.bridge.enable_icc\":\"false\"},"
                           "\"Labels\":{\"sandboxd.instance\":\"/var/lib/sandboxed\"}}";

static void test_body(void **state)
{
    (void)state;
    struct config config = test_config();
    BUF_AUTO(body, 4096);
    network_body(&config, "10.201.0.0/20", &body);
    struct json_doc *doc AUTO(json_doc) = test_json(body.ptr);
    const struct json_value *options = json_get(json_root(doc), "Options");
    assert_true(str_is(json_get_str(options, "com.docker.network.bridge.name"), "sbx0"));
    assert_true(str_is(json_get_str(options, "com.docker.network.bridge.enable_icc"), "false"));
    const struct json_value *ipam = json_path(json_root(doc), "IPAM", "Config", NULL);
    assert_true(str_is(json_get_str(json_at(ipam, 0), "Subnet"), "10.201.0.0/20"));
}

static void test_check(void **state)
{
    (void)state;
    struct config config = test_config();
    struct network network;
    struct err e;
    struct json_doc *doc AUTO(json_doc) = test_json(ours);
    assert_int_equal(network_check(json_root(doc), &config, &network, &e), 0);
    assert_string_equal(network.id, "971377d5498d");
    assert_string_equal(network.subnet, "10.201.0.0/20");
    /* The same network, of another installation. */
    config.data_dir = "/srv/other";
    assert_int_equal(network_check(json_root(doc), &config, &network, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_non_null(strstr(e.msg, "SANDBOXD_BRIDGE"));
}

static void test_check_changed(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"\"false\"", "\"true\" "},
        {"\"Driver\":\"bridge\"", "\"Driver\":\"macvla\""},
        {".name\":\"sbx0\"", ".name\":\"sbx1\""},
    };
    struct config config = test_config();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct network network;
        struct err e;
        char *text AUTOFREE = mem_strdup(ours);
        char *at = strstr(text, cases[i][0]);
        assert_non_null(at);
        assert_int_equal(strlen(cases[i][0]), strlen(cases[i][1]));
        memcpy(at, cases[i][1], strlen(cases[i][1]));
        struct json_doc *doc AUTO(json_doc) = test_json(text);
        assert_int_equal(network_check(json_root(doc), &config, &network, &e), -1);
        assert_int_equal(e.code, ERR_CONFLICT);
    }
}

static void test_bridges(void **state)
{
    (void)state;
    struct json_doc *doc AUTO(json_doc) = test_json(
        "[{\"Name\":\"bridge\",\"Id\":\"738e88c7cc32aa\",\"Driver\":\"bridge\","
        "\"Options\":{\"com.docker.network.bridge.name\":\"docker0\"}},"
        "{\"Name\":\"host\",\"Id\":\"bf4c31fb0958aa\",\"Driver\":\"host\",\"Options\":{}},"
        "{\"Name\":\"app\",\"Id\":\"1d6f167774ef01234\",\"Driver\":\"bridge\",\"Options\":{}},"
        "{\"Name\":\"evil\",\"Id\":\"1d6f167774ef01234\",\"Driver\":\"bridge\","
        "\"Options\":{\"com.docker.network.bridge.name\":\"a\\\" }; x\"}},"
        "{\"Name\":\"sbx0\",\"Id\":\"971377d5498daa\",\"Driver\":\"bridge\","
        "\"Options\":{\"com.docker.network.bridge.name\":\"sbx0\"}}]");
    BUF_AUTO(out, 1024);
    network_list_bridges(json_root(doc), "sbx0", &out);
    assert_string_equal(out.ptr, "\"docker0\", \"br-1d6f167774ef\"");
}

static void choose(const struct subnet_taken *taken, const char *wanted)
{
    struct allow_prefix p;
    struct err e;
    char text[ALLOW_TEXT_BYTES];
    assert_int_equal(subnet_choose(taken, &p, &e), 0);
    assert_string_equal(allow_prefix_text(&p, text), wanted);
}

static void take(struct subnet_taken *taken, const char *text)
{
    assert_true(allow_parse_prefix(str_of(text), &taken->items[taken->count++]));
}

static void test_subnet(void **state)
{
    (void)state;
    struct subnet_taken *taken AUTOFREE = mem_alloc(sizeof(*taken));
    choose(taken, "10.201.0.0/20");
    take(taken, "10.201.0.0/20");
    take(taken, "10.201.16.128/25");
    choose(taken, "10.201.32.0/20");
    /* The owner's whole office is 10/8. */
    take(taken, "10.0.0.0/8");
    choose(taken, "172.16.0.0/20");
    take(taken, "172.16.0.0/12");
    struct allow_prefix p;
    struct err e;
    assert_int_equal(subnet_choose(taken, &p, &e), -1);
    assert_non_null(strstr(e.msg, "SANDBOXD_SUBNET"));
}

static void test_subnet_sources(void **state)
{
    (void)state;
    struct subnet_taken *taken AUTOFREE = mem_alloc(sizeof(*taken));
    subnet_take_routes(taken, STR("Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
                                  "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
                                  "wg0\t0000C90A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
                                  "bad\tline\n"));
    assert_int_equal(taken->count, 1);
    choose(taken, "10.202.0.0/20");
    struct json_doc *doc AUTO(json_doc) =
        test_json("[{\"IPAM\":{\"Config\":[{\"Subnet\":\"10.202.0.0/16\"}]}},"
                  "{\"IPAM\":{\"Config\":null}},{\"IPAM\":{\"Config\":[{\"Subnet\":7}]}},{}]");
    subnet_take_networks(taken, json_root(doc));
    assert_int_equal(taken->count, 2);
    choose(taken, "10.203.0.0/20");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_body),          cmocka_unit_test(test_check),
        cmocka_unit_test(test_check_changed), cmocka_unit_test(test_bridges),
        cmocka_unit_test(test_subnet),        cmocka_unit_test(test_subnet_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
