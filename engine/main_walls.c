/*
 * sandboxd-walls: one batch of nftables commands from stdin, what they print on stdout, why they
 * were refused on stderr; exit status 0 or 1.
 *
 * Started by sandboxd-engine and ended within milliseconds. It must never take a setting from
 * anywhere else. Main thread.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <nftables/libnftables.h>

#include "engine/ruleset.h"
#include "lib/fd.h"
#include "lib/mem.h"

static int run(const char *commands)
{
    struct nft_ctx *nft = nft_ctx_new(NFT_CTX_DEFAULT);
    if (!nft) {
        (void)fputs("libnftables does not start\n", stderr);
        return EXIT_FAILURE;
    }
    nft_ctx_output_set_flags(nft, NFT_CTX_OUTPUT_STATELESS | NFT_CTX_OUTPUT_NUMERIC_ALL);
    int result = nft_run_cmd_from_buffer(nft, commands);
    nft_ctx_free(nft);
    /* A listing that was cut would look like another table: it must not count as an answer. */
    return result == 0 && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(void)
{
    char *commands AUTOFREE = NULL;
    size_t len = 0;
    struct err e = {0};
    /* The engine ignores it for its own sockets. */
    (void)signal(SIGPIPE, SIG_IGN);
    if (fd_read_all(STDIN_FILENO, RULESET_BYTES_MAX, &commands, &len, &e) < 0) {
        (void)fprintf(stderr, "%s\n", e.msg);
        return EXIT_FAILURE;
    }
    return run(commands);
}
