/*
 * Tests of the route table: which handler, which parameters, which paths are none. One thread.
 */
#include "control/http/route.h"
#include "tests/unit/control/test.h"

static void handler(struct http_request *r, struct http_response *p, void *ctx)
{
    (void)r;
    (void)p;
    (void)ctx;
}

static const struct http_route routes[] = {
    {"GET", "/healthz", handler, HTTP_PUBLIC | HTTP_API_ONLY, 0},
    {"GET", "/v1/apps", handler, 0, 0},
    {"POST", "/v1/apps", handler, 0, 0},
    {"GET", "/v1/apps/:id", handler, 0, 0},
    {"POST", "/v1/apps/:id/sandbox", handler, 0, 0},
    {"GET", "/v1/sandboxes/:id/tasks/:task", handler, 0, 0},
    {"GET", "/v1/session", handler, HTTP_PUBLIC | HTTP_CONSOLE_ONLY, 0},
    {"GET", "/", handler, HTTP_PUBLIC | HTTP_CONSOLE_ONLY | HTTP_FALLBACK, 0},
};

static struct arena *arena;
static struct http_request request;
static const struct http_route *found;

static int setup(void **state)
{
    (void)state;
    arena = arena_new(1 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static enum route_result find(const char *method, const char *path, bool from_console)
{
    request = (struct http_request){
        .method = method, .path = str_of(path), .from_console = from_console, .arena = arena};
    found = NULL;
    return route_find(routes, ARRAY_LEN(routes), &request, &found);
}

static void test_found(void **state)
{
    (void)state;
    assert_int_equal(find("GET", "/v1/apps", false), ROUTE_FOUND);
    assert_ptr_equal(found, &routes[1]);
    assert_int_equal(find("POST", "/v1/apps", false), ROUTE_FOUND);
    assert_ptr_equal(found, &routes[2]);
    assert_int_equal(find("HEAD", "/v1/apps", false), ROUTE_FOUND);
    assert_ptr_equal(found, &routes[1]);
    assert_int_equal(find("GET", "/v1/apps/a%62c", false), ROUTE_FOUND);
    test_str(request.params[0], "abc");
    assert_int_equal(find("GET", "/v1/sandboxes/one/tasks/two", false), ROUTE_FOUND);
    test_str(request.params[0], "one");
    test_str(request.params[1], "two");
}

static void test_not_found(void **state)
{
    (void)state;
    static const char *const none[] = {"/",
                                       "/v1/apps/",
                                       "/v1//apps",
                                       "//v1/apps",
                                       "/v1/apps/a/b",
                                       "/v1/apps/a/sandbox/",
                                       "/V1/apps",
                                       "/v1/apps?x",
                                       "/v1/./apps",
                                       "/v1/apps/../apps",
                                       "/v1%2Fapps",
                                       "/healthz/"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        enum route_result result = find("GET", none[i], false);
        assert_true(result == ROUTE_NO_PATH || result == ROUTE_BAD_PATH);
        assert_true(result == ROUTE_BAD_PATH || !found);
    }
}

static void test_methods(void **state)
{
    (void)state;
    assert_int_equal(find("DELETE", "/v1/apps", false), ROUTE_NO_METHOD);
    assert_int_equal(find("get", "/v1/apps", false), ROUTE_NO_METHOD);
    assert_int_equal(find("GET", "/v1/apps/x/sandbox", false), ROUTE_NO_METHOD);
    assert_int_equal(find("HEAD", "/v1/apps/x/sandbox", false), ROUTE_NO_METHOD);
}

static void test_bad_parameters(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "/v1/apps/..",    "/v1/apps/.",   "/v1/apps/%2e%2e", "/v1/apps/%2E", "/v1/apps/a%2Fb",
        "/v1/apps/a%2fb", "/v1/apps/%00", "/v1/apps/%0a",    "/v1/apps/%7F", "/v1/apps/%",
        "/v1/apps/%2",    "/v1/apps/%zz", "/v1/apps/a%-1b"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(find("GET", bad[i], false), ROUTE_BAD_PATH);
    }
    /* What is decoded once is not decoded again. */
    assert_int_equal(find("GET", "/v1/apps/%252e%252e", false), ROUTE_FOUND);
    test_str(request.params[0], "%2e%2e");
    /* A plus is a plus in a path. */
    assert_int_equal(find("GET", "/v1/apps/a+b", false), ROUTE_FOUND);
    test_str(request.params[0], "a+b");
}

static void test_ports(void **state)
{
    (void)state;
    assert_int_equal(find("GET", "/healthz", false), ROUTE_FOUND);
    assert_int_equal(find("GET", "/v1/session", false), ROUTE_NO_PATH);
    assert_int_equal(find("GET", "/v1/session", true), ROUTE_FOUND);
    /* At the console's port everything un-versioned is a file or nothing. */
    assert_int_equal(find("GET", "/healthz", true), ROUTE_FOUND);
    assert_ptr_equal(found, &routes[7]);
    assert_int_equal(find("GET", "/assets/app.js", true), ROUTE_FOUND);
    assert_ptr_equal(found, &routes[7]);
    assert_int_equal(find("POST", "/assets/app.js", true), ROUTE_NO_PATH);
    assert_int_equal(find("DELETE", "/v1/apps", true), ROUTE_NO_METHOD);
}

static void test_decode(void **state)
{
    (void)state;
    struct str out;
    assert_true(route_decode(arena, STR("a+b%20c%C3%A4"), true, &out));
    test_str(out, "a b c\xC3\xA4");
    assert_true(route_decode(arena, STR(""), true, &out));
    assert_int_equal(out.len, 0);
    assert_false(route_decode(arena, STR("a%0Db"), true, &out));
    assert_false(route_decode(arena, STR("%"), true, &out));
    static char big[2 << 20];
    memset(big, 'a', sizeof(big));
    assert_false(route_decode(arena, str_n(big, sizeof(big)), true, &out));
}

int main(void)
{
#define WITH_ARENA(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_ARENA(test_found),          WITH_ARENA(test_not_found), WITH_ARENA(test_methods),
        WITH_ARENA(test_bad_parameters), WITH_ARENA(test_ports),     WITH_ARENA(test_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
