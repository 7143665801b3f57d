/*
 * Replays a fuzz corpus: calls the target once with nothing and once with each file given.
 * Linked instead of libFuzzer's own main, so that every input that was ever kept is tried in each
 * test run with the compiler that ships. It must never write to the corpus. One thread.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* libFuzzer never hands a target more than this unless it is told to. */
#define REPLAY_INPUT_BYTES_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Calls the target with a block of exactly the input's size, so that one byte too far is seen. */
static int replay_bytes(const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size > 0 ? size : 1);

    if (exact == NULL)
        return -1;
    for (size_t i = 0; i < size; i++)
        exact[i] = bytes[i];
    (void)LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 0;
}

static int replay_file(const char *path)
{
    static uint8_t input[REPLAY_INPUT_BYTES_MAX];
    FILE *file = fopen(path, "rbe");
    size_t size;
    int failed;

    if (file == NULL) {
        perror(path);
        return -1;
    }
    size = fread(input, 1, sizeof(input), file);
    failed = ferror(file);
    (void)fclose(file);
    if (failed) {
        (void)fprintf(stderr, "replay: read %s failed\n", path);
        return -1;
    }
    /* The last name printed is the one that crashed. */
    (void)fprintf(stderr, "replay: %s\n", path);
    return replay_bytes(input, size);
}

int main(int argc, char **argv)
{
    static const uint8_t nothing[1];

    if (replay_bytes(nothing, 0) != 0)
        return 1;
    for (int i = 1; i < argc; i++) {
        if (replay_file(argv[i]) != 0)
            return 1;
    }
    printf("replay: %d inputs\n", argc);
    return 0;
}
