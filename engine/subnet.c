/*
 * A free subnet for the bridge. Pure.
 */
#include "engine/subnet.h"

#include <string.h>

#define SUBNET_BITS 20
#define SUBNET_STEP (1U << (32 - SUBNET_BITS))
/* Where the search begins in 10/8: away from the low numbers that offices and clouds use. */
#define SUBNET_START_A 0x0AC90000U /* 10.201.0.0 */
#define SUBNET_FIRST_A 0x0A000000U
#define SUBNET_LAST_A  0x0AFFFFFFU
#define SUBNET_FIRST_B 0xAC100000U /* 172.16.0.0 */
#define SUBNET_LAST_B  0xAC1FFFFFU

static void subnet_take(struct subnet_taken *taken, const struct allow_prefix *p)
{
    if (taken->count < SUBNET_TAKEN_MAX && p->bits > 0) {
        taken->items[taken->count++] = *p;
    }
}

void subnet_take_networks(struct subnet_taken *taken, const struct json_value *networks)
{
    for (size_t i = 0; i < json_count(networks); i++) {
        const struct json_value *config = json_path(json_at(networks, i), "IPAM", "Config", NULL);
        if (!json_is_array(config)) {
            continue;
        }
        for (size_t j = 0; j < json_count(config); j++) {
            struct allow_prefix p;
            if (allow_parse_prefix(json_get_str(json_at(config, j), "Subnet"), &p)) {
                subnet_take(taken, &p);
            }
        }
    }
}

static bool hex_u32(struct str text, uint32_t *ret_value)
{
    uint32_t value = 0;
    if (text.len != 8) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c >= '0' && c <= '9') {
            value = value << 4 | (uint32_t)(c - '0');
        } else if (c >= 'A' && c <= 'F') {
            value = value << 4 | (uint32_t)(c - 'A' + 10);
        } else {
            return false;
        }
    }
    *ret_value = value;
    return true;
}

/* Columns: Iface Destination Gateway Flags RefCnt Use Metric Mask …; addresses are in the memory
 * order of the host. */
void subnet_take_routes(struct subnet_taken *taken, struct str routes)
{
    struct str line;
    while (str_split(&routes, '\n', &line)) {
        struct str columns[8] = {{0}};
        uint32_t destination = 0;
        uint32_t mask = 0;
        size_t count = 0;
        while (count < 8 && str_split(&line, '\t', &columns[count])) {
            count++;
        }
        if (count < 8 || !hex_u32(columns[1], &destination) ||
            !hex_u32(str_trim(columns[7]), &mask)) {
            continue;
        }
        struct allow_prefix p = {.bits = (uint8_t)__builtin_popcount(mask)};
        memcpy(p.bytes, &destination, sizeof(destination));
        subnet_take(taken, &p);
    }
}

static bool subnet_is_free(const struct subnet_taken *taken, uint32_t address,
                           struct allow_prefix *ret)
{
    struct allow_prefix p = {.bits = SUBNET_BITS,
                             .bytes = {(uint8_t)(address >> 24), (uint8_t)(address >> 16),
                                       (uint8_t)(address >> 8), (uint8_t)address}};
    for (size_t i = 0; i < taken->count; i++) {
        if (allow_prefix_overlaps(&p, &taken->items[i])) {
            return false;
        }
    }
    *ret = p;
    return true;
}

static bool subnet_search(const struct subnet_taken *taken, uint32_t first, uint32_t last,
                          struct allow_prefix *ret)
{
    for (uint32_t at = first; at >= first && at <= last; at += SUBNET_STEP) {
        if (subnet_is_free(taken, at, ret)) {
            return true;
        }
    }
    return false;
}

int subnet_choose(const struct subnet_taken *taken, struct allow_prefix *ret, struct err *e)
{
    if (subnet_search(taken, SUBNET_START_A, SUBNET_LAST_A, ret) ||
        subnet_search(taken, SUBNET_FIRST_A, SUBNET_START_A - 1, ret) ||
        subnet_search(taken, SUBNET_FIRST_B, SUBNET_LAST_B, ret)) {
        return 0;
    }
    return err_set(e, ERR_LIMIT, 0,
                   "no free /20 in 10.0.0.0/8 and 172.16.0.0/12: set SANDBOXD_SUBNET");
}
