/*
 * Running sandboxd-walls. It must never interpret what that program says beyond its exit status and
 * the first line of its words. Caller's thread.
 */
#include "engine/nft.h"

#include <stdlib.h>
#include <sys/wait.h>

#include "lib/buf.h"
#include "lib/proc.h"

#define NFT_PROGRAM    "sandboxd-walls"
#define NFT_TIMEOUT_MS 10000

/* What the program said, or how it went away. */
static int nft_failed(int status, struct str words, struct err *e)
{
    ptrdiff_t end = str_find(words, '\n');
    if (WIFSIGNALED(status)) {
        return err_set(e, ERR_UNAVAILABLE, 0, "walls: %s was ended by signal %d", NFT_PROGRAM,
                       WTERMSIG(status));
    }
    return err_set(e, ERR_UNAVAILABLE, 0, "walls: nftables refused the table: %.*s",
                   STR_FMT(end < 0 ? words : str_cut(words, 0, (size_t)end)));
}

int nft_run(const char *commands, char **ret_output, struct err *e)
{
    char path[PROC_PATH_MAX];
    const char *const argv[] = {NFT_PROGRAM, NULL};
    const char *const envp[] = {NULL};
    struct buf out;
    struct buf words;
    int status = 0;
    if (proc_beside(path, NFT_PROGRAM, e) < 0) {
        return err_tag(e, "walls_down");
    }
    struct proc_options options = {.path = path,
                                   .argv = argv,
                                   .envp = envp,
                                   .input = str_of(commands),
                                   .timeout_ms = NFT_TIMEOUT_MS,
                                   .output_max = NFT_OUTPUT_BYTES_MAX};
    int result = proc_run(&options, &out, &words, &status, e);
    if (result < 0) {
        e->code = ERR_UNAVAILABLE;
        (void)err_tag(e, "walls_down");
    } else if (status != 0) {
        result = nft_failed(status, str_trim(buf_str(&words)), e);
    } else if (ret_output) {
        *ret_output = buf_take(&out);
    }
    buf_done(&out);
    buf_done(&words);
    return result;
}
