/*
 * Fuzz target: what Docker and the kernel say: event and progress lines, log frames, containers,
 * networks, tables of sockets and mounts. The first byte picks the parser. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "engine/allow.h"
#include "engine/cgroup.h"
#include "engine/container.h"
#include "engine/docker.h"
#include "engine/events.h"
#include "engine/inspect.h"
#include "engine/mounts.h"
#include "engine/network.h"
#include "engine/ports.h"
#include "engine/presets.h"
#include "engine/progress.h"
#include "engine/runtime.h"
#include "engine/subnet.h"

static const struct config config = {.data_dir = "/var/lib/sandboxed", .bridge = "sbx0"};

static void fuzz_json(struct str text)
{
    struct json_doc *doc AUTO(json_doc) = NULL;
    struct inspect container;
    struct network network;
    struct docker_version version;
    struct ulid id = {.text = "01jd00000000000000000000aa"};
    struct err e;
    BUF_AUTO(out, 65536);
    struct subnet_taken *taken AUTOFREE = mem_alloc(sizeof(*taken));
    if (json_parse(text, &doc, &e) < 0) {
        return;
    }
    (void)!inspect_parse(json_root(doc), &config, &id, &container, &e);
    (void)!network_check(json_root(doc), &config, &network, &e);
    (void)!docker_pick_version(json_root(doc), &version, &e);
    (void)!runtime_check_info(json_root(doc), true, &e);
    network_list_bridges(json_root(doc), "sbx0", &out);
    subnet_take_networks(taken, json_root(doc));
}

static void fuzz_progress(struct str text)
{
    struct progress p;
    progress_init(&p);
    progress_feed(&p, str_cut(text, 0, text.len / 2));
    progress_feed(&p, str_cut(text, text.len / 2, text.len));
    (void)progress_tail(&p);
    progress_done(&p);
}

static void fuzz_text(struct str text)
{
    struct hub_event event;
    struct mounts_line line;
    struct allow_list allow;
    struct err e;
    char path[CGROUP_PATH_BYTES];
    struct subnet_taken *taken AUTOFREE = mem_alloc(sizeof(*taken));
    struct presets *presets AUTOFREE = mem_alloc(sizeof(*presets));
    BUF_AUTO(out, 65536);
    (void)events_parse_line(text, config.data_dir, &event);
    (void)mounts_find_above(text, "/var/lib/sandboxed/workspaces/x", &line);
    (void)!allow_parse(text, &allow, &e);
    (void)cgroup_parse_path(text, "memory", path);
    (void)cgroup_text_names(text, "7ab8cf26f7a5");
    (void)ports_table_has(text, 3000);
    (void)docker_time_ms(text);
    (void)!presets_parse(text, presets, &e);
    subnet_take_routes(taken, text);
    container_logs_demux(text, &out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct str text = str_n(data + 1, size - 1);
    switch (data[0] % 3) {
    case 0: fuzz_json(text); break;
    case 1: fuzz_progress(text); break;
    default: fuzz_text(text); break;
    }
    return 0;
}
