/*
 * What every unit test of the engine includes: cmocka and its needs, and a settings struct that is
 * good. One thread.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/config.h"
#include "lib/json_read.h"
#include "lib/mem.h"
#include "lib/str.h"

#define TEST_ID "01jd00000000000000000000aa"

/* Settings of an installation with everything at its default. */
static inline struct config test_config(void)
{
    return (struct config){.data_dir = "/var/lib/sandboxed",
                           .bridge = "sbx0",
                           .table = "sandboxd_sbx0",
                           .subnet = "",
                           .docker_socket = "/var/run/docker.sock",
                           .presets_dir = "/usr/share/sandboxd/presets",
                           .ca_dir = "",
                           .build_config_dir = "",
                           .walls_on = true,
                           .uid_base = 2000000000};
}

/* A document that must parse. Caller frees. */
static inline struct json_doc *test_json(const char *text)
{
    struct json_doc *doc = NULL;
    struct err e = {0};
    if (json_parse(str_of(text), &doc, &e) < 0) {
        fail_msg("%s", e.msg);
    }
    return doc;
}
