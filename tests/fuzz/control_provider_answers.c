/*
 * Fuzz target: what a provider answers to a login and to a check of a key. Whatever it says, a
 * token that is taken can be the value of a header, and words for people are one line of text. One
 * thread.
 */
#include "control/vault/vault_private.h"
#include "lib/fetch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_tokens(struct str body)
{
    struct vault_secret secret;
    struct err e;
    secret_init(&secret);
    int rc = login_take(body, &secret, &e);
    bool sound = secret_is_plain(buf_str(&secret.key)) &&
                 (secret.refresh.len == 0 || secret_is_plain(buf_str(&secret.refresh))) &&
                 secret.expires_at >= 0 && str_is_text(str_of(secret.scopes), false);
    if (rc == 0 && !sound) {
        __builtin_trap();
    }
    secret_done(&secret);
}

static void take_words(struct str body)
{
    static const char key[] = "sk-0123456789";
    struct fetch_answer answer = {.status = 401};
    char words[201];
    buf_init(&answer.body, 1UL << 20);
    buf_add_str(&answer.body, body);
    check_words(&answer, str_of(key), words, sizeof(words));
    if (!str_is_text(str_of(words), false) || strstr(words, key)) {
        __builtin_trap();
    }
    buf_done(&answer.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    take_tokens(str_n(data, size));
    take_words(str_n(data, size));
    return 0;
}
