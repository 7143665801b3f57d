/*
 * The text of the walls. Pure.
 *
 * What comes from the bridge reaches neither the host (input), nor a bridge, nor a private,
 * link-local or reserved address (forward). A drop is final in nftables, whatever other tables
 * accept; an accept of ours leaves the owner's firewall to say no.
 */
#include "engine/ruleset.h"

#include <string.h>

/* Below the "filter" priority: a packet that we drop costs nobody else anything. */
#define RULESET_PRIORITY "-10"

#define RULESET_PRIVATE4                                                                 \
    "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, " \
    "192.168.0.0/16, 224.0.0.0/4, 240.0.0.0/4"
/* Unspecified and loopback, IPv4 inside IPv6 (mapped, NAT64, 6to4, Teredo), unique local, link and
 * site local, multicast. */
#define RULESET_PRIVATE6                                                                    \
    "::/127, ::ffff:0:0/96, 64:ff9b::/96, 64:ff9b:1::/48, 2001::/32, 2002::/16, fc00::/7, " \
    "fe80::/10, fec0::/10, ff00::/8"

static const char *ruleset_family(const struct allow_prefix *p)
{
    return p->is_v6 ? "ip6" : "ip";
}

static void ruleset_write_allowed(const struct ruleset *rules, struct buf *out)
{
    char text[ALLOW_TEXT_BYTES];
    buf_puts(out, "  chain allowed {\n");
    for (size_t i = 0; i < rules->resolver_count; i++) {
        const struct allow_prefix *p = &rules->resolvers[i];
        buf_printf(out, "    %s daddr %s meta l4proto { tcp, udp } th dport 53 accept\n",
                   ruleset_family(p), allow_prefix_text(p, text));
    }
    for (size_t i = 0; i < rules->allow->count; i++) {
        const struct allow_entry *entry = &rules->allow->entries[i];
        buf_printf(out, "    %s daddr %s ", ruleset_family(&entry->prefix),
                   allow_prefix_text(&entry->prefix, text));
        if (entry->port) {
            buf_printf(out, "meta l4proto { tcp, udp } th dport %u ", entry->port);
        }
        buf_puts(out, "accept\n");
    }
    buf_puts(out, "  }\n");
}

void ruleset_write(const struct ruleset *rules, struct buf *out)
{
    buf_printf(out, "add table inet %s\ndelete table inet %s\ntable inet %s {\n", rules->table,
               rules->table, rules->table);
    ruleset_write_allowed(rules, out);
    buf_printf(out,
               "  chain input {\n"
               "    type filter hook input priority " RULESET_PRIORITY "; policy accept;\n"
               "    iifname != \"%s\" accept\n"
               /* answers to connections that the host itself opened */
               "    ct state established ct direction reply accept\n"
               "    jump allowed\n"
               "    counter drop\n"
               "  }\n",
               rules->bridge);
    buf_printf(out,
               "  chain forward {\n"
               "    type filter hook forward priority " RULESET_PRIORITY "; policy accept;\n"
               "    iifname != \"%s\" accept\n"
               "    oifname \"%s\" counter drop\n"
               "    jump allowed\n",
               rules->bridge, rules->bridge);
    if (*rules->other_bridges) {
        buf_printf(out, "    oifname { %s } counter drop\n", rules->other_bridges);
    }
    buf_puts(out, "    ip daddr { " RULESET_PRIVATE4 " } counter drop\n"
                  "    ip6 daddr { " RULESET_PRIVATE6 " } counter drop\n"
                  "  }\n}\n");
}

void ruleset_add_resolver(struct ruleset *rules, const struct allow_prefix *address)
{
    for (size_t i = 0; i < rules->resolver_count; i++) {
        const struct allow_prefix *known = &rules->resolvers[i];
        if (known->is_v6 == address->is_v6 &&
            memcmp(known->bytes, address->bytes, sizeof(known->bytes)) == 0) {
            return;
        }
    }
    if (rules->resolver_count < RULESET_RESOLVERS_MAX && !allow_prefix_is_loopback(address)) {
        rules->resolvers[rules->resolver_count++] = *address;
    }
}

void ruleset_add_resolvers(struct ruleset *rules, struct str resolv_conf)
{
    struct str line;
    struct str keyword = STR("nameserver");
    while (str_split(&resolv_conf, '\n', &line)) {
        struct allow_prefix address;
        line = str_trim(line);
        if (!str_starts(line, keyword)) {
            continue;
        }
        struct str value = str_trim(str_cut(line, keyword.len, line.len));
        /* A zone ("fe80::1%eth0") means nothing inside a sandbox. */
        if (value.len < line.len - keyword.len && str_find(value, '/') < 0 &&
            allow_parse_prefix(value, &address)) {
            ruleset_add_resolver(rules, &address);
        }
    }
}

/* Lines with something on them, from the first that begins with "table". */
static size_t table_lines(struct str text)
{
    struct str line;
    size_t count = 0;
    while (str_split(&text, '\n', &line)) {
        line = str_trim(line);
        if (!str_empty(line) && (count > 0 || str_starts(line, STR("table ")))) {
            count++;
        }
    }
    return count;
}

bool ruleset_is_listed(struct str batch, struct str listing)
{
    return table_lines(batch) == table_lines(listing);
}
