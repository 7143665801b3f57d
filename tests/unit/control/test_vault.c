/*
 * Vault: the master key and its refusals, sealed keys, base URLs, tokens, and the broker's socket.
 */
#include "control/store/settings.h"
#include "control/store/tasks.h"
#include "control/vault/outgoing.h"
#include "control/vault/vault_private.h"
#include "lib/fd.h"
#include "lib/mem.h"
#include "lib/paths.h"
#include "lib/record.h"
#include "tests/unit/control/store.h"

#define KEY    "sk-ant-planted-0123456789"
#define ZEN    "SANDBOXD_PROVIDER_ZEN_BASE_URL"
#define WAIT   (clock_mono_ms() + 10000)
#define FRAMES 70000

static struct config config;
static struct vault *vault;
static char **first_environ;

/* The whole environment from here on. */
static void set_environ(const char *setting)
{
    static char text[128];
    static char *only[] = {text, NULL};
    (void)snprintf(text, sizeof(text), "%s", setting);
    environ = only;
}

static int make_dirs(void)
{
    static const char *const dirs[] = {"agent-auth", "run", "run/broker", "run/broker/credentials"};
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        if (mkdir(store_path(dirs[i]), 0700) != 0) {
            return -1;
        }
    }
    return 0;
}

static int setup(void **state)
{
    if (store_setup(state) != 0 || make_dirs() != 0) {
        return -1;
    }
    first_environ = environ;
    config = (struct config){.data_dir = store_dir,
                             .secrets_key = "",
                             .default_agent = "opencode",
                             .presets_dir = "presets",
                             /* The credentials proxy of this base has the uid of the test. */
                             .uid_base = geteuid() + 998U};
    return 0;
}

static void stop(void)
{
    vault_stop(vault);
    vault = NULL;
}

static int teardown(void **state)
{
    static const char *const files[] = {
        "secrets.key",           "agent-auth/anthropic.box",
        "agent-auth/zen.box",    "agent-auth/openrouter.box",
        "agent-auth/openai.box", "run/broker/credentials/broker.sock"};
    static const char *const dirs[] = {"agent-auth", "run/broker/credentials", "run/broker", "run"};
    stop();
    environ = first_environ;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        (void)unlink(store_path(files[i]));
    }
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        (void)rmdir(store_path(dirs[i]));
    }
    return store_teardown(state);
}

static void start(void)
{
    OK(vault_start(&config, db, &vault, &e));
    OK(vault_serve(vault, &e));
}

static void refused(const char *word)
{
    REFUSED(vault_start(&config, db, &vault, &e), ERR_INVALID);
    vault = NULL;
    if (!str_contains(str_of(e.msg), str_of(word))) {
        fail_msg("\"%s\" is not in: %s", word, e.msg);
    }
}

/* ---- the master key ---- */

static void the_key_is_made_once(void **state)
{
    struct stat st;
    char id[CRYPTO_KEY_ID_HEX];
    (void)state;
    start();
    memcpy(id, vault_master(vault)->id, sizeof(id));
    assert_int_equal(stat(store_path("secrets.key"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    stop();
    start();
    assert_string_equal(vault_master(vault)->id, id);
}

static void a_missing_key_is_not_made_anew(void **state)
{
    (void)state;
    start();
    stop();
    assert_int_equal(unlink(store_path("secrets.key")), 0);
    refused("secrets.key is missing");
    assert_int_equal(access(store_path("secrets.key"), F_OK), -1);
}

static void boxes_alone_forbid_a_new_key(void **state)
{
    (void)state;
    start();
    OK(vault_set_key(vault, "anthropic", STR(KEY), &e));
    stop();
    assert_int_equal(unlink(store_path("secrets.key")), 0);
    OK(settings_set(db, "secrets_key_id", NULL, &e));
    refused("secrets.key is missing");
}

static void another_key_is_refused(void **state)
{
    (void)state;
    start();
    stop();
    config.secrets_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    refused("SANDBOXD_SECRETS_KEY holds another key");
    config.secrets_key = "too short";
    refused("SANDBOXD_SECRETS_KEY is not a key");
    config.secrets_key = "";
    OK(fd_write_file(store_path("secrets.key"), STR("nothing\n"), 0600, &e));
    refused("secrets.key does not hold a key");
}

static void an_unreadable_key_file_is_refused(void **state)
{
    (void)state;
    start();
    stop();
    assert_int_equal(unlink(store_path("secrets.key")), 0);
    assert_int_equal(mkdir(store_path("secrets.key"), 0700), 0);
    refused("secrets.key cannot be read");
    assert_int_equal(rmdir(store_path("secrets.key")), 0);
}

static void a_box_of_another_key_is_refused(void **state)
{
    (void)state;
    start();
    OK(vault_set_key(vault, "anthropic", STR(KEY), &e));
    stop();
    OK(fd_write_file(store_path("agent-auth/anthropic.box"), STR("v1.0000000000000000.AAAA\n"),
                     0600, &e));
    refused("agent-auth/anthropic.box");
}

static void the_setting_may_replace_the_file(void **state)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;
    (void)state;
    start();
    stop();
    OK(fd_read_file(store_path("secrets.key"), 100, &text, &len, &e));
    assert_int_equal(unlink(store_path("secrets.key")), 0);
    config.secrets_key = text;
    start();
}

/* ---- keys of providers ---- */

static void a_key_is_stored_sealed(void **state)
{
    char *text AUTOFREE = NULL;
    size_t len = 0;
    struct vault_secret secret;
    bool removed = false;
    (void)state;
    start();
    assert_false(vault_has_key(vault, "anthropic"));
    OK(vault_set_key(vault, "anthropic", STR(KEY), &e));
    assert_true(vault_has_key(vault, "anthropic"));
    OK(fd_read_file(store_path("agent-auth/anthropic.box"), 8192, &text, &len, &e));
    assert_null(strstr(text, "planted"));
    stop();
    start();
    assert_true(vault_has_key(vault, "anthropic"));
    secret_init(&secret);
    OK(secret_read(vault, "anthropic", &secret, &e));
    assert_string_equal(secret.key.ptr, KEY);
    secret_done(&secret);
    OK(vault_remove_key(vault, "anthropic", &removed, &e));
    assert_true(removed);
    OK(vault_remove_key(vault, "anthropic", &removed, &e));
    assert_false(removed);
    assert_false(vault_has_key(vault, "anthropic"));
}

static void what_cannot_be_a_header_is_no_key(void **state)
{
    static const char *const bad[] = {"", "a b", "a\r\nb", "k\xc3\xa4y"};
    (void)state;
    start();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        REFUSED(vault_set_key(vault, "anthropic", str_of(bad[i]), &e), ERR_INVALID);
    }
    REFUSED(vault_set_key(vault, "nobody", STR(KEY), &e), ERR_NOT_FOUND);
    REFUSED(vault_set_key(vault, "../zen", STR(KEY), &e), ERR_NOT_FOUND);
    assert_false(vault_has_key(vault, "anthropic"));
}

/* ---- registry ---- */

static void base_urls_are_checked(void **state)
{
    static const char *const good[][2] = {
        {"http://127.0.0.1:8700/zen/v1", "http://127.0.0.1:8700/zen/v1"},
        {"https://example.com/", "https://example.com"},
        {"http://[::1]:8700", "http://[::1]:8700"},
    };
    static const char *const bad[] = {
        "",
        "example.com",
        "ftp://example.com",
        "http://",
        "http:///path",
        "http://user:pass@example.com",
        "http://example.com/?q=1",
        "http://example.com/#f",
        "http://exa mple.com",
        "http://example.com/a\r\nHost: b",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        BUF_AUTO(out, 1024);
        OK(vault_check_base_url(str_of(good[i][0]), &out, &e));
        assert_string_equal(out.ptr, good[i][1]);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        BUF_AUTO(out, 1024);
        REFUSED(vault_check_base_url(str_of(bad[i]), &out, &e), ERR_INVALID);
    }
}

static void a_setting_moves_a_provider(void **state)
{
    (void)state;
    set_environ(ZEN "=http://127.0.0.1:8700/zen/v1");
    start();
    assert_string_equal(vault_provider_find(vault, STR("zen"))->base_url,
                        "http://127.0.0.1:8700/zen/v1");
    assert_string_equal(vault_provider_find(vault, STR("anthropic"))->base_url,
                        "https://api.anthropic.com");
    stop();
    set_environ(ZEN "=nonsense");
    refused(ZEN);
}

static void the_registry_knows_both_agents(void **state)
{
    (void)state;
    start();
    const struct vault_agent *opencode = vault_agent_find(vault, STR("opencode"));
    const struct vault_agent *claude = vault_agent_find(vault, STR("claude-code"));
    assert_string_equal(opencode->native_provider, "zen");
    assert_true(opencode->keyless);
    assert_string_equal(claude->native_provider, "anthropic");
    assert_false(claude->keyless);
    assert_true(claude->default_model[0] != '\0');
    assert_null(vault_agent_find(vault, STR("nobody")));
}

/* ---- tokens ---- */

/* A task that waits, as the store knows it. */
static void make_task(struct ulid *ret_task, struct ulid *ret_sandbox)
{
    struct app_row app = store_app("app");
    struct sandbox_row sandbox = store_sandbox(&app.id);
    struct task_row task = {.id = ulid_new(),
                            .app_id = app.id,
                            .sandbox_id = sandbox.id,
                            .agent = "claude-code",
                            .model = "",
                            .prompt = "p",
                            .timeout_s = 60,
                            .created_at = clock_unix_ms()};
    OK(tasks_insert(db, &task, &e));
    *ret_task = task.id;
    *ret_sandbox = sandbox.id;
}

static void a_token_works_through_its_own_door_until_revoked(void **state)
{
    BUF_AUTO(token, 256);
    BUF_AUTO(box, 1024);
    BUF_AUTO(again, 256);
    struct ulid task = {""};
    struct ulid sandbox = {""};
    struct ulid other = ulid_new();
    struct ulid found;
    const struct vault_agent *agent = NULL;
    (void)state;
    start();
    make_task(&task, &sandbox);
    const struct vault_agent *claude = vault_agent_find(vault, STR("claude-code"));
    OK(vault_grant(vault, &task, &sandbox, claude, &token, &box, &e));
    assert_true(str_starts(buf_str(&token), STR("sbt_")));
    assert_false(str_contains(buf_str(&box), buf_str(&token)));
    assert_true(vault_find_grant(vault, buf_str(&token), &sandbox, &found, &agent));
    assert_true(ulid_eq(&found, &task) && agent == claude);
    assert_false(vault_find_grant(vault, buf_str(&token), &other, &found, &agent));
    assert_false(vault_find_grant(vault, STR("sbt_x"), &sandbox, &found, &agent));
    vault_revoke(vault, &task);
    assert_false(vault_find_grant(vault, buf_str(&token), &sandbox, &found, &agent));
    stop();
    start();
    claude = vault_agent_find(vault, STR("claude-code"));
    REFUSED(vault_restore(vault, &other, &sandbox, claude, buf_str(&box), &again, &e),
            ERR_FORBIDDEN);
    OK(vault_restore(vault, &task, &sandbox, claude, buf_str(&box), &again, &e));
    assert_string_equal(again.ptr, token.ptr);
    assert_true(vault_find_grant(vault, buf_str(&token), &sandbox, &found, &agent));
}

/* ---- the broker ---- */

static int dial(void)
{
    char path[PATHS_MAX];
    BUF_AUTO(out, FRAMES);
    BUF_AUTO(in, FRAMES);
    struct record answer;
    int fd = -1;
    OK(fd_unix_connect(paths_broker_socket(path, store_dir, "credentials"), &fd, &e));
    struct record_writer w = record_begin(&out, "hello");
    record_addn(&w, "protocol", 1);
    assert_true(record_end(&w));
    OK(record_send(fd, &out, WAIT, &e));
    OK(record_recv(fd, &in, &answer, WAIT, &e));
    assert_true(record_is(&answer, "hello"));
    return fd;
}

/* The next record that is not the word that some key changed. */
static void hear(int fd, struct buf *in, struct record *ret)
{
    do {
        OK(record_recv(fd, in, ret, WAIT, &e));
    } while (record_is(ret, "changed"));
}

static void ask(int fd, const struct ulid *sandbox, struct str token, struct buf *in,
                struct record *answer)
{
    BUF_AUTO(out, FRAMES);
    struct record_writer w = record_begin(&out, "grant");
    record_addn(&w, "n", 7);
    record_adds(&w, "sandbox_id", sandbox->text);
    record_add(&w, "token", token);
    assert_true(record_end(&w));
    OK(record_send(fd, &out, WAIT, &e));
    hear(fd, in, answer);
    assert_true(record_is(answer, "grant"));
    test_str(record_get(answer, "n"), "7");
}

static void the_broker_gives_the_key_for_the_token_only(void **state)
{
    BUF_AUTO(token, 256);
    BUF_AUTO(box, 1024);
    BUF_AUTO(in, FRAMES);
    struct ulid task = {""};
    struct ulid sandbox = {""};
    struct ulid other = ulid_new();
    struct record r;
    (void)state;
    start();
    make_task(&task, &sandbox);
    OK(vault_set_key(vault, "anthropic", STR(KEY), &e));
    OK(vault_grant(vault, &task, &sandbox, vault_agent_find(vault, STR("claude-code")), &token,
                   &box, &e));
    int fd AUTOCLOSE = dial();
    ask(fd, &sandbox, buf_str(&token), &in, &r);
    test_str(record_get(&r, "status"), "ok");
    test_str(record_get(&r, "task_id"), task.text);
    test_str(record_get(&r, "provider"), "anthropic");
    test_str(record_get(&r, "header"), "x-api-key");
    test_str(record_get(&r, "key"), KEY);
    ask(fd, &other, buf_str(&token), &in, &r);
    test_str(record_get(&r, "status"), "unknown");
    assert_null(record_get(&r, "key").ptr);
    vault_revoke(vault, &task);
    hear(fd, &in, &r);
    assert_true(record_is(&r, "revoke"));
    test_str(record_get(&r, "task_id"), task.text);
    ask(fd, &sandbox, buf_str(&token), &in, &r);
    test_str(record_get(&r, "status"), "unknown");
}

static void a_keyless_agent_gets_its_provider_without_a_header(void **state)
{
    BUF_AUTO(token, 256);
    BUF_AUTO(box, 1024);
    BUF_AUTO(in, FRAMES);
    struct ulid task = {""};
    struct ulid sandbox = {""};
    struct record r;
    struct str name;
    size_t pos = 0;
    size_t providers = 0;
    (void)state;
    start();
    make_task(&task, &sandbox);
    OK(vault_grant(vault, &task, &sandbox, vault_agent_find(vault, STR("opencode")), &token, &box,
                   &e));
    int fd AUTOCLOSE = dial();
    ask(fd, &sandbox, buf_str(&token), &in, &r);
    test_str(record_get(&r, "provider"), "zen");
    test_str(record_get(&r, "header"), "");
    test_str(record_get(&r, "key"), "");
    while (record_each_of(&r, &pos, "provider", &name)) {
        providers++;
    }
    assert_int_equal(providers, 1);
}

/* Only a provider whose data says where is believed about the cost of a request. */
static void a_grant_says_where_the_cost_stands(void **state)
{
    BUF_AUTO(token, 256);
    BUF_AUTO(box, 1024);
    BUF_AUTO(in, FRAMES);
    struct ulid task = {""};
    struct ulid sandbox = {""};
    struct record r;
    size_t pos = 0;
    (void)state;
    start();
    make_task(&task, &sandbox);
    OK(vault_set_key(vault, "openrouter", STR(KEY), &e));
    OK(vault_set_key(vault, "openai", STR(KEY), &e));
    OK(vault_grant(vault, &task, &sandbox, vault_agent_find(vault, STR("opencode")), &token, &box,
                   &e));
    int fd AUTOCLOSE = dial();
    ask(fd, &sandbox, buf_str(&token), &in, &r);
    struct str last = STR("");
    struct str key;
    struct str value;
    unsigned costs = 0;
    while (record_each(&r, &pos, &key, &value)) {
        last = str_is(key, "path") ? value : last;
        if (str_is(key, "cost")) {
            costs++;
            test_str(value, "usage.cost");
            test_str(last, "POST /chat/completions");
        }
    }
    assert_int_equal(costs, 1);
}

/* ---- logins and words of providers ---- */

static void import_claude_login(int64_t expires_at)
{
    BUF_AUTO(told, 100);
    BUF_AUTO(text, 300);
    buf_printf(&text, "{\"claudeAiOauth\":{\"accessToken\":\"oat-1\",\"expiresAt\":%lld}}",
               (long long)expires_at);
    OK(vault_import(vault, vault_agent_find(vault, STR("claude-code")), buf_str(&text), &told, &e));
}

static struct vault_credential wait_credential(bool reconnect, int64_t expires_at)
{
    struct vault_credential c = vault_credential_get(vault, "anthropic");
    for (int i = 0; i < 1000 && (c.reconnect != reconnect || c.expires_at != expires_at); i++) {
        clock_sleep_ms(10);
        c = vault_credential_get(vault, "anthropic");
    }
    assert_int_equal(c.reconnect, reconnect);
    assert_int_equal(c.expires_at, expires_at);
    return c;
}

/* Else its tasks would wait for a renewal that never comes. */
static void a_login_that_nothing_renews_ends(void **state)
{
    int64_t over = clock_unix_ms() - 1000;
    (void)state;
    start();
    import_claude_login(over);
    struct vault_credential c = wait_credential(true, over);
    assert_non_null(strstr(c.message, "connect again"));
    assert_false(vault_has_key(vault, "anthropic"));
    stop();
    start();
    assert_true(vault_credential_get(vault, "anthropic").reconnect);
}

static void a_doubted_login_that_nothing_renews_stays(void **state)
{
    int64_t later = clock_unix_ms() + INT64_C(86400000);
    (void)state;
    start();
    import_claude_login(later);
    renewal_doubt(vault, "anthropic");
    (void)wait_credential(false, later);
    assert_true(vault_has_key(vault, "anthropic"));
}

static void words_show_no_part_of_a_key(void **state)
{
    struct outgoing_answer answer = {.status = 401};
    char out[201];
    (void)state;
    buf_init(&answer.body, 1000);
    buf_printf(&answer.body, "{\"error\":{\"message\":\"%0190d%s\"}}", 0, KEY);
    check_words(&answer, STR(KEY), out, sizeof(out));
    test_str(str_of(out), "");
    check_words(&answer, STR("another"), out, sizeof(out));
    assert_int_equal(strlen(out), 200);
    outgoing_done(&answer);
}

/* ---- providers of the owner's own ---- */

static void own_provider_that_goes_is_told(void **state)
{
    struct vault_own_provider own = {.id = "ollama",
                                     .kind = "openai-compatible",
                                     .label = "Ollama",
                                     .base_url = "http://127.0.0.1:11434/v1",
                                     .default_model = "",
                                     .keyless = true};
    BUF_AUTO(in, FRAMES);
    struct record r;
    (void)state;
    start();
    int fd AUTOCLOSE = dial();
    OK(vault_provider_set(vault, &own, &e));
    OK(record_recv(fd, &in, &r, WAIT, &e));
    assert_true(record_is(&r, "changed"));
    OK(vault_provider_remove(vault, "ollama", &e));
    buf_reset(&in);
    OK(record_recv(fd, &in, &r, WAIT, &e));
    assert_true(record_is(&r, "changed"));
    REFUSED(vault_set_key(vault, "ollama", STR(KEY), &e), ERR_NOT_FOUND);
}

static void an_own_provider_that_is_not_stored_is_none(void **state)
{
    struct vault_own_provider own = {.id = "ollama",
                                     .kind = "openai-compatible",
                                     .label = "Ollama",
                                     .base_url = "http://127.0.0.1:11434/v1",
                                     .default_model = ""};
    (void)state;
    start();
    OK(db_write(db, NULL, &e, "DROP TABLE provider", ""));
    assert_int_equal(vault_provider_set(vault, &own, &e), -1);
    assert_null(vault_provider_find(vault, STR("ollama")));
}

static void the_broker_hangs_up_on_rubbish(void **state)
{
    static const char *const rubbish[] = {"\xff\xff\xff\xff", "\0\0\0\1x",
                                          "GET / HTTP/1.1\r\n\r\n"};
    (void)state;
    start();
    for (size_t i = 0; i < ARRAY_LEN(rubbish); i++) {
        int fd AUTOCLOSE = dial();
        char byte = 0;
        OK(fd_write_all(fd, rubbish[i], i == 1 ? 5 : strlen(rubbish[i]), WAIT, &e));
        REFUSED(fd_read_exact(fd, &byte, 1, WAIT, &e), ERR_IO);
    }
    int fd AUTOCLOSE = dial();
    assert_true(fd >= 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_key_is_made_once),
        TEST(a_missing_key_is_not_made_anew),
        TEST(boxes_alone_forbid_a_new_key),
        TEST(another_key_is_refused),
        TEST(an_unreadable_key_file_is_refused),
        TEST(a_box_of_another_key_is_refused),
        TEST(the_setting_may_replace_the_file),
        TEST(a_key_is_stored_sealed),
        TEST(what_cannot_be_a_header_is_no_key),
        TEST(base_urls_are_checked),
        TEST(a_setting_moves_a_provider),
        TEST(the_registry_knows_both_agents),
        TEST(a_token_works_through_its_own_door_until_revoked),
        TEST(the_broker_gives_the_key_for_the_token_only),
        TEST(a_keyless_agent_gets_its_provider_without_a_header),
        TEST(a_grant_says_where_the_cost_stands),
        TEST(a_login_that_nothing_renews_ends),
        TEST(a_doubted_login_that_nothing_renews_stays),
        TEST(words_show_no_part_of_a_key),
        TEST(own_provider_that_goes_is_told),
        TEST(an_own_provider_that_is_not_stored_is_none),
        TEST(the_broker_hangs_up_on_rubbish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
