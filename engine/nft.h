/*
 * nftables, asked through sandboxd-walls: a short-lived program that holds libnftables, so that the
 * engine, which needs it for milliseconds a day, does not keep the library and its parsers in
 * memory. Any thread; each call is a process of its own.
 */
#pragma once

#include "lib/err.h"

/* What one batch or listing may take, at most. A table of ours is a fraction of it. */
#define NFT_OUTPUT_BYTES_MAX (1U << 20)

/* Runs a batch or a listing, blocking for milliseconds (10 s at most). *ret_output, when wanted, is
 * what nftables printed; caller frees. ERR_UNAVAILABLE, the message begins with "walls: ". */
int nft_run(const char *commands, char **ret_output, struct err *e) MUST_CHECK;
