/*
 * Fuzz target: what a provider answers to a login and to a check of a key, and what the program
 * that asked it writes. Whatever that is, a token that is taken can be the value of a header, words
 * for people are one line of text, and an answer has the length that it says. One thread.
 */
#include "control/vault/outgoing.h"
#include "control/vault/vault_private.h"

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
    struct outgoing_answer answer = {.status = 401};
    char words[201];
    buf_init(&answer.body, 1UL << 20);
    buf_add_str(&answer.body, body);
    check_words(&answer, str_of(key), words, sizeof(words));
    if (!str_is_text(str_of(words), false) || strstr(words, key)) {
        __builtin_trap();
    }
    buf_done(&answer.body);
}

static void take_program(struct str bytes)
{
    struct outgoing_answer answer = {0};
    struct buf in;
    struct err e;
    buf_init(&in, 1UL << 20);
    buf_init(&answer.body, 64);
    buf_add_str(&in, bytes);
    int rc = outgoing_take(&in, &answer, &e);
    if (rc == 0 && (answer.body.len > bytes.len || answer.status < 0 || answer.status > 999)) {
        __builtin_trap();
    }
    outgoing_done(&answer);
    buf_done(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    take_program(str_n(data, size));
    take_tokens(str_n(data, size));
    take_words(str_n(data, size));
    return 0;
}
