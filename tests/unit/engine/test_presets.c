/*
 * Tests of the images: images.json, the hash of a context against one computed by other means, the
 * tar archive. One thread.
 */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/presets.h"
#include "engine/tar.h"
#include "lib/fd.h"
#include "lib/paths.h"
#include "lib/proc.h"
#include "tests/unit/engine/test.h"

static char root[] = "/tmp/engine-presets-XXXXXX";

static int run(const char *path, const char *const *argv, struct buf *out)
{
    const char *const envp[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", NULL};
    struct proc_options options = {.path = path,
                                   .argv = argv,
                                   .envp = envp,
                                   .cwd = root,
                                   .timeout_ms = 20000,
                                   .output_max = 65536};
    BUF_AUTO(words, 65536);
    struct err e;
    int status = 0;
    assert_int_equal(proc_run(&options, out, &words, &status, &e), 0);
    return status;
}

static void make(const char *rest, mode_t mode, const char *content)
{
    char path[PATHS_MAX];
    struct err e;
    (void)paths_join(path, root, rest);
    if (!content) {
        assert_int_equal(mkdir(path, mode), 0);
        return;
    }
    assert_int_equal(fd_write_file(path, str_of(content), mode, &e), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int setup(void **state)
{
    (void)state;
    (void)umask(022);
    assert_non_null(mkdtemp(root));
    make("presets", 0755, NULL);
    make("presets/images.json", 0644,
         "{\"images\":[{\"name\":\"base\",\"context\":\"base\"},"
         "{\"name\":\"app\",\"context\":\"app\",\"from\":\"base\"}]}");
    make("presets/base", 0755, NULL);
    make("presets/base/Dockerfile", 0644, "FROM debian\n");
    make("presets/base/run.sh", 0755, "#!/bin/sh\n");
    make("presets/base/ca", 0755, NULL);
    make("presets/base/ca/README.md", 0600, "certificates\n");
    make("presets/app", 0755, NULL);
    make("presets/app/Dockerfile", 0644, "ARG BASE\n");
    make("presets/app/a", 0755, NULL);
    make("presets/app/a/z", 0644, "");
    make("presets/app/a.b", 0664, "x");
    make("ca", 0755, NULL);
    make("ca/mine.crt", 0644, "PEM\n");
    make("ca/mine.txt", 0644, "no certificate\n");
    char link_path[PATHS_MAX];
    /* Links are no files of a context. */
    return symlink("/etc/passwd", paths_join(link_path, root, "presets/base/link"));
}

static int teardown(void **state)
{
    (void)state;
    const char *const argv[] = {"rm", "-rf", root, NULL};
    BUF_AUTO(out, 100);
    return run("/bin/rm", argv, &out);
}

static struct config presets_config(char presets[PATHS_MAX], char ca[PATHS_MAX])
{
    struct config config = test_config();
    config.presets_dir = paths_join(presets, root, "presets");
    config.ca_dir = paths_join(ca, root, "ca");
    return config;
}

/* The recipe of presets/README.md, in a shell. */
static void shell_hash(const char *parent, const char *files, char ret_hash[13])
{
    char script[2048];
    (void)snprintf(
        script, sizeof(script),
        "{ printf '%%s' '%s'; for f in %s; do s=${f#*=}; "
        "m=644; [ ! -x \"$s\" ] || m=755; "
        "printf '%%s\\0%%s\\0%%s\\0' \"${f%%%%=*}\" $m $(stat -c %%s \"$s\"); cat \"$s\"; "
        "done; } | sha256sum | cut -c1-12",
        parent, files);
    const char *const argv[] = {"sh", "-c", script, NULL};
    BUF_AUTO(out, 1000);
    assert_int_equal(run("/bin/sh", argv, &out), 0);
    struct str hash = str_trim(buf_str(&out));
    assert_int_equal(hash.len, 12);
    memcpy(ret_hash, hash.ptr, 12);
    ret_hash[12] = '\0';
}

static void test_hash(void **state)
{
    (void)state;
    char presets_dir[PATHS_MAX];
    char ca_dir[PATHS_MAX];
    char base[13];
    char app[13];
    struct config config = presets_config(presets_dir, ca_dir);
    struct presets *presets AUTOFREE = mem_alloc(sizeof(*presets));
    struct err e = {0};
    if (presets_load(&config, presets, &e) < 0) {
        fail_msg("%s", e.msg);
    }
    shell_hash("",
               "Dockerfile=presets/base/Dockerfile ca/README.md=presets/base/ca/README.md "
               "ca/mine.crt=ca/mine.crt run.sh=presets/base/run.sh",
               base);
    shell_hash(base, "Dockerfile=presets/app/Dockerfile a.b=presets/app/a.b a/z=presets/app/a/z",
               app);
    assert_string_equal(presets->images[0].hash, base);
    assert_string_equal(presets->images[1].hash, app);
    assert_int_equal(presets->images[1].parent, 0);
    assert_true(str_starts(str_of(presets->images[1].tag), STR("sandboxd-app:")));
}

static void test_changed_file_changes_hash(void **state)
{
    (void)state;
    char presets_dir[PATHS_MAX];
    char ca_dir[PATHS_MAX];
    struct config config = presets_config(presets_dir, ca_dir);
    struct presets *before AUTOFREE = mem_alloc(sizeof(*before));
    struct presets *after AUTOFREE = mem_alloc(sizeof(*after));
    struct err e;
    assert_int_equal(presets_load(&config, before, &e), 0);
    make("presets/base/run.sh", 0644, "#!/bin/sh\n"); /* only its mode */
    assert_int_equal(presets_load(&config, after, &e), 0);
    assert_string_not_equal(before->images[0].hash, after->images[0].hash);
    assert_string_not_equal(before->images[1].hash, after->images[1].hash);
    make("presets/base/run.sh", 0755, "#!/bin/sh\n");
}

static void test_context(void **state)
{
    (void)state;
    char presets_dir[PATHS_MAX];
    char ca_dir[PATHS_MAX];
    char tar[PATHS_MAX];
    struct config config = presets_config(presets_dir, ca_dir);
    struct presets *presets AUTOFREE = mem_alloc(sizeof(*presets));
    struct err e;
    BUF_AUTO(archive, 1 << 20);
    BUF_AUTO(out, 65536);
    assert_int_equal(presets_load(&config, presets, &e), 0);
    assert_int_equal(presets_context(&config, &presets->images[0], &archive, &e), 0);
    assert_int_equal(fd_write_file(paths_join(tar, root, "x.tar"), buf_str(&archive), 0600, &e), 0);
    /* GNU tar reads it, and says no word of complaint. */
    const char *const argv[] = {"tar", "-tvf", "x.tar", "--numeric-owner", NULL};
    assert_int_equal(run("/bin/tar", argv, &out), 0);
    assert_non_null(strstr(out.ptr, "-rw-r--r-- 0/0"));
    assert_non_null(strstr(out.ptr, "-rwxr-xr-x 0/0"));
    assert_non_null(strstr(out.ptr, "ca/mine.crt"));
    assert_null(strstr(out.ptr, "mine.txt"));
}

static void test_tar_names(void **state)
{
    (void)state;
    char name[301];
    struct err e;
    BUF_AUTO(out, 65536);
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(tar_add(&out, str_n(name, 100), 0644, STR("x"), &e), 0);
    assert_int_equal(tar_add(&out, str_n(name, 101), 0644, STR("x"), &e), -1);
    name[150] = '/';
    assert_int_equal(tar_add(&out, str_n(name, 250), 0644, STR("x"), &e), 0);
    assert_int_equal(tar_add(&out, str_n(name, 252), 0644, STR("x"), &e), -1);
    assert_int_equal(tar_add(&out, STR(""), 0644, STR("x"), &e), -1);
}

static void test_images_json(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "",
        "[]",
        "{}",
        "{\"images\":[]}",
        "{\"images\":[{\"name\":\"a\"}]}",
        "{\"images\":[{\"name\":\"../a\",\"context\":\"a\"}]}",
        "{\"images\":[{\"name\":\"a\",\"context\":\"../a\"}]}",
        "{\"images\":[{\"name\":\"a\",\"context\":\"a\",\"from\":\"b\"}]}",
        "{\"images\":[{\"name\":\"a\",\"context\":\"a\",\"from\":7}]}",
        "{\"images\":[{\"name\":\"a\",\"context\":\"a\"},{\"name\":\"a\",\"context\":\"b\"}]}",
        "{\"images\":[{\"name\":\"a:b\",\"context\":\"a\"}]}",
    };
    struct presets *presets AUTOFREE = mem_alloc(sizeof(*presets));
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        if (presets_parse(str_of(refused[i]), presets, &e) == 0) {
            fail_msg("%s was accepted", refused[i]);
        }
    }
    assert_int_equal(
        presets_parse(STR("{\"images\":[{\"name\":\"a\",\"context\":\"a\"}]}"), presets, &e), 0);
    assert_int_equal(presets_find(presets, STR("a")), 0);
    assert_int_equal(presets_find(presets, STR("b")), -1);
    assert_int_equal(presets_find(presets, STR("")), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash),        cmocka_unit_test(test_changed_file_changes_hash),
        cmocka_unit_test(test_context),     cmocka_unit_test(test_tar_names),
        cmocka_unit_test(test_images_json),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
