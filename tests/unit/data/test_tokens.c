/* test_tokens.c - reading, splitting and cutting files of bytes and of 16-bit tokens, and every wrong file. */
#include "data/tokens.h"
#include "files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static void assert_refused(const char *path, tdmi_token_kind kind, uint32_t vocab, const char *text)
{
    tdmi_tokens *tokens = NULL;
    assert_int_equal(tdmi_tokens_open(path, kind, vocab, &tokens), TDM_ERR_BAD_FILE);
    assert_null(tokens);
    if (strstr(tdm_error_text(), text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", tdm_error_text(), text);
    assert_non_null(strstr(tdm_error_text(), path)); /* always which file */
}

static tdmi_tokens *opened(const char *path, uint32_t vocab)
{
    tdmi_tokens *tokens;
    assert_int_equal(tdmi_tokens_open(path, TDMI_TOKENS_AUTO, vocab, &tokens), TDM_OK);
    return tokens;
}

/* A header as llm.c writes it, `count` tokens promised. */
static void put_header(uint8_t *at, uint32_t version, uint32_t count)
{
    const uint32_t words[] = {20240520, version, count};
    memset(at, 0, 1024);
    for (int w = 0; w < 3; w++)
        for (int b = 0; b < 4; b++)
            at[4 * w + b] = (uint8_t)(words[w] >> (8 * b));
}

static void any_file_is_a_row_of_bytes(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {'T', 0, 255, 10, 200};
    tdmi_tokens *tokens = opened(files_write("a.txt", bytes, sizeof bytes), 0);
    assert_int_equal(tdmi_tokens_count(tokens), 5);
    assert_int_equal(tdmi_tokens_vocab(tokens), 256);
    assert_string_equal(tdmi_tokens_format(tokens), "bytes");
    int32_t out[5];
    assert_int_equal(tdmi_tokens_read(tokens, 0, 5, out), TDM_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(out[i], bytes[i]);
    assert_int_equal(tdmi_tokens_read(tokens, 3, 3, out), TDM_ERR_INVALID);
    assert_int_equal(tdmi_tokens_read(tokens, UINT64_MAX, 1, out), TDM_ERR_INVALID);
    tdmi_tokens_close(tokens);
    tdmi_tokens_close(NULL);
}

static void a_bin_file_holds_16_bit_tokens_with_or_without_a_header(void **state)
{
    (void)state;
    enum { N = 20000 }; /* more than one chunk of reading */
    static uint8_t file[1024 + 2 * N];
    put_header(file, 1, N);
    for (int i = 0; i < N; i++) {
        int token = i * 7 % 50257;
        file[1024 + 2 * i] = (uint8_t)token;
        file[1025 + 2 * i] = (uint8_t)(token >> 8);
    }
    tdmi_tokens *with = opened(files_write("with.bin", file, sizeof file), 0);
    tdmi_tokens *without = opened(files_write("without.bin", file + 1024, 2 * N), 0);
    assert_int_equal(tdmi_tokens_count(with), N);
    assert_int_equal(tdmi_tokens_count(without), N);
    assert_int_equal(tdmi_tokens_vocab(with), 50257);
    assert_string_equal(tdmi_tokens_format(with), "uint16");
    static int32_t a[N], b[N];
    assert_int_equal(tdmi_tokens_read(with, 0, N, a), TDM_OK);
    assert_int_equal(tdmi_tokens_read(without, 0, N, b), TDM_OK);
    assert_memory_equal(a, b, sizeof a);
    for (int i = 0; i < N; i++)
        assert_int_equal(a[i], i * 7 % 50257);
    tdmi_tokens_close(with);
    tdmi_tokens_close(without);
}

static void the_kind_can_be_forced(void **state)
{
    (void)state;
    const char *path = files_write("x.bin", "abcd", 4);
    tdmi_tokens *tokens;
    assert_int_equal(tdmi_tokens_open(path, TDMI_TOKENS_BYTES, 0, &tokens), TDM_OK);
    assert_int_equal(tdmi_tokens_count(tokens), 4);
    tdmi_tokens_close(tokens);
    assert_int_equal(tdmi_tokens_open(files_write("x.txt", "abcd", 4), TDMI_TOKENS_U16, 0, &tokens), TDM_OK);
    assert_int_equal(tdmi_tokens_count(tokens), 2);
    tdmi_tokens_close(tokens);
}

static void missing_empty_and_strange_files_are_refused(void **state)
{
    (void)state;
    assert_refused(files_path("missing.txt"), TDMI_TOKENS_AUTO, 0, "No such file");
    assert_refused(files_write("empty.txt", "", 0), TDMI_TOKENS_AUTO, 0, "is empty");
    assert_refused(files_write("empty.bin", "", 0), TDMI_TOKENS_AUTO, 0, "is empty");
    assert_refused(files_dir, TDMI_TOKENS_AUTO, 0, "is a directory");
    const char *fifo = files_path("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_refused(fifo, TDMI_TOKENS_AUTO, 0, "is not a regular file"); /* and does not wait for a writer */
}

static void an_unreadable_file_is_refused(void **state)
{
    (void)state;
    const char *path = files_write("secret.txt", "abc", 3);
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(chmod(files_dir, 0755), 0);
    pid_t child = fork();
    if (child == 0) { /* root may read everything, so look as somebody else */
        tdmi_tokens *tokens;
        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(9);
        bool right = tdmi_tokens_open(path, TDMI_TOKENS_AUTO, 0, &tokens) == TDM_ERR_BAD_FILE &&
                     strstr(tdm_error_text(), "Permission denied") != NULL && strstr(tdm_error_text(), path) != NULL;
        _exit(right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void damaged_token_files_are_refused(void **state)
{
    (void)state;
    static uint8_t file[1024 + 8];
    assert_refused(files_write("odd.bin", "abc", 3), TDMI_TOKENS_AUTO, 0, "has 3 bytes, an odd number");
    put_header(file, 2, 4);
    assert_refused(files_write("v2.bin", file, sizeof file), TDMI_TOKENS_AUTO, 0, "header of version 2, expected version 1");
    put_header(file, 1, 5);
    assert_refused(files_write("count.bin", file, sizeof file), TDMI_TOKENS_AUTO, 0,
                   "promises 5 tokens in its header, but its 1032 bytes hold 4");
    put_header(file, 1, 4);
    assert_refused(files_write("none.bin", file, 1024), TDMI_TOKENS_AUTO, 0, "promises 4 tokens");
    assert_refused(files_write("cut.bin", file, 600), TDMI_TOKENS_AUTO, 0, "header cut off after 600 of 1024 bytes");
    put_header(file, 1, 0);
    assert_refused(files_write("nothing.bin", file, 1024), TDMI_TOKENS_AUTO, 0, "is empty");
}

static void a_file_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    static uint8_t file[1024 + 16];
    put_header(file, 1, 8);
    const char *path = files_write("any.bin", file, sizeof file);
    tdmi_tokens_close(opened(path, 0));
    for (off_t nbytes = (off_t)sizeof file - 1; nbytes >= 4; nbytes--) {
        tdmi_tokens *tokens;
        assert_int_equal(truncate(path, nbytes), 0);
        assert_int_equal(tdmi_tokens_open(path, TDMI_TOKENS_AUTO, 0, &tokens), TDM_ERR_BAD_FILE);
    }
}

static void a_token_beyond_the_vocabulary_is_named_with_its_place(void **state)
{
    (void)state;
    static uint16_t tokens[9000];
    tokens[8500] = 50257;
    assert_refused(files_write("big.bin", tokens, sizeof tokens), TDMI_TOKENS_AUTO, 0,
                   "token 50257 at position 8500 is beyond the vocabulary of 50257");
    tdmi_tokens_close(opened(files_path("big.bin"), 50258));
    assert_refused(files_write("letters.txt", "abcz", 4), TDMI_TOKENS_AUTO, 'z', "token 122 at position 3");
}

static void a_file_that_shrinks_or_changes_under_us_is_an_error(void **state)
{
    (void)state;
    const char *path = files_write("live.bin", "\1\0\2\0\3\0\4\0", 8);
    tdmi_tokens *tokens = opened(path, 10);
    int32_t out[4];
    assert_int_equal(tdmi_tokens_read(tokens, 0, 4, out), TDM_OK);
    files_write("live.bin", "\1\0\2\0\377\0\4\0", 8);
    assert_int_equal(tdmi_tokens_read(tokens, 1, 3, out), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "token 255 at position 2"));
    assert_int_equal(truncate(path, 5), 0);
    assert_int_equal(tdmi_tokens_read(tokens, 0, 4, out), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "ends at byte 5; "));
    tdmi_tokens_close(tokens);
}

static void the_end_of_the_file_is_for_validation(void **state)
{
    (void)state;
    static uint8_t bytes[1000];
    for (int i = 0; i < 1000; i++)
        bytes[i] = (uint8_t)i;
    tdmi_tokens *tokens = opened(files_write("split.txt", bytes, sizeof bytes), 0);
    tdmi_windows train, val;
    assert_int_equal(tdmi_tokens_split(tokens, 0.05, 7, &train, &val), TDM_OK);
    assert_int_equal(train.count, 950);
    assert_int_equal(train.windows, 135); /* 135 x 7 + 1 = 946 tokens, another window would need 953 */
    assert_int_equal(val.first, 950);
    assert_int_equal(val.windows, 7);
    int32_t window[8];
    assert_int_equal(tdmi_windows_read(&train, 134, window), TDM_OK);
    for (int i = 0; i < 8; i++)
        assert_int_equal(window[i], (uint8_t)(134 * 7 + i));
    assert_int_equal(tdmi_windows_read(&val, 6, window), TDM_OK);
    for (int i = 0; i < 8; i++)
        assert_int_equal(window[i], (uint8_t)(950 + 42 + i)); /* its last token is the file's */
    assert_int_equal(tdmi_windows_read(&val, 7, window), TDM_ERR_INVALID);
    assert_int_equal(tdmi_tokens_split(tokens, 0, 999, &train, &val), TDM_OK);
    assert_int_equal(train.windows, 1);
    assert_int_equal(val.windows, 0);
    assert_int_equal(tdmi_tokens_split(tokens, 1.0, 7, &train, &val), TDM_ERR_INVALID);
    assert_int_equal(tdmi_tokens_split(tokens, -0.1, 7, &train, &val), TDM_ERR_INVALID);
    assert_int_equal(tdmi_tokens_split(tokens, 0.1, 0, &train, &val), TDM_ERR_INVALID);
    tdmi_tokens_close(tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_file_is_a_row_of_bytes),
        cmocka_unit_test(a_bin_file_holds_16_bit_tokens_with_or_without_a_header),
        cmocka_unit_test(the_kind_can_be_forced),
        cmocka_unit_test(missing_empty_and_strange_files_are_refused),
        cmocka_unit_test(an_unreadable_file_is_refused),
        cmocka_unit_test(damaged_token_files_are_refused),
        cmocka_unit_test(a_file_cut_at_any_byte_is_refused),
        cmocka_unit_test(a_token_beyond_the_vocabulary_is_named_with_its_place),
        cmocka_unit_test(a_file_that_shrinks_or_changes_under_us_is_an_error),
        cmocka_unit_test(the_end_of_the_file_is_for_validation),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end) != 0;
}
