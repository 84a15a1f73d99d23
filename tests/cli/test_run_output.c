/* test_run_output.c - ranks' output through `tandem run`: whole, soon, in order, and never in the way of the job. */
#include "program.h"

#include "core/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS 8
#define LINES 400
#define NBYTES 5000

/* Whether `out` is, rank by rank, exactly what `rank lines` writes. */
static void check_lines(const char *out, size_t nbytes)
{
    int next[RANKS] = {0};
    const char *at = out, *end = out + nbytes;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        assert_non_null(newline);
        assert_true(newline - at > 4 && at[0] == '[' && at[2] == ']' && at[3] == ' ');
        int r = at[1] - '0';
        assert_in_range(r, 0, RANKS - 1);
        char expected[64];
        if (next[r] < LINES) {
            snprintf(expected, sizeof expected, "%d %06d ", r, next[r]);
            assert_int_equal(newline - at - 4, strlen(expected) + NBYTES);
            assert_memory_equal(at + 4, expected, strlen(expected));
            for (const char *c = at + 4 + strlen(expected); c < newline; c++)
                if (*c != 'a' + r)
                    fail_msg("a foreign byte in a line of rank %d", r);
        } else {
            snprintf(expected, sizeof expected, "tail of %d", r);
            assert_int_equal(newline - at - 4, strlen(expected));
            assert_memory_equal(at + 4, expected, strlen(expected));
        }
        next[r]++;
        at = newline + 1;
    }
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(next[r], LINES + 1);
}

static void long_lines_of_many_ranks_stay_whole(void **state)
{
    (void)state;
    program p;
    RUN(&p, "TANDEM", "run", "-q", "-n", "8", "RANK", "lines", "400", "5000");
    assert_int_equal(p.code, 0);
    check_lines(p.out, p.out_nbytes);
    assert_string_equal(p.err, "");
    program_done(&p, 0);
}

static void a_slow_reader_loses_nothing(void **state)
{
    (void)state;
    program p; /* 16 MB through a pipe whose reader sleeps first */
    RUN(&p, "sh", "-c", "\"$0\" run -q -n 8 \"$1\" lines 400 5000 | (sleep 0.5; cat)", tandem_path, rank_path);
    assert_int_equal(p.code, 0);
    check_lines(p.out, p.out_nbytes);
    program_done(&p, 0);
}

static void a_reader_that_goes_does_not_stop_the_job(void **state)
{
    (void)state;
    program p;
    RUN(&p, "sh", "-c", "(\"$0\" run -q -n 2 \"$1\" lines 3000 5000; echo code $? >&2) | head -n 1", tandem_path, rank_path);
    assert_int_equal(count_of(p.out, "\n"), 1);
    assert_string_equal(p.err, "code 0\n");
    assert_true(p.seconds < 5);
    program_done(&p, 0);
}

static void standard_descriptors_may_be_closed_from_the_start(void **state)
{
    (void)state;
    program p;
    RUN(&p, "sh", "-c", "\"$0\" run -q -n 2 -- sh -c 'echo out; echo err >&2' >&-; echo code $? >&2", tandem_path);
    assert_non_null(strstr(p.err, "code 0\n"));
    assert_int_equal(count_of(p.err, "] err\n"), 2);
    program_done(&p, 0);
    RUN(&p, "sh", "-c", "\"$0\" run -q -n 2 -- sh -c 'readlink /proc/$$/fd/0' <&-", tandem_path);
    assert_non_null(strstr(p.out, "[0] /dev/null\n")); /* and no descriptor of the launcher's that took its place */
    program_done(&p, 0);
}

static void bytes_pass_as_they_are_and_streams_stay_apart(void **state)
{
    (void)state;
    program p;
    RUN(&p, "TANDEM", "run", "-q", "-n", "2", "RANK", "binary");
    char line[256];
    for (int i = 0; i < 256; i++)
        line[i] = (char)(i == '\n' ? 'N' : i);
    assert_int_equal(p.out_nbytes, 2 * (4 + 256 + 1));
    assert_int_equal(p.err_nbytes, 2 * (4 + 256 + 1));
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(p.out + i * 261 + 4, line, 256);
        assert_memory_equal(p.err + i * 261 + 4, line, 256);
    }
    program_done(&p, 0);
}

static void stdout_and_stderr_of_one_file_do_not_mix_lines(void **state)
{
    (void)state;
    program p;
    RUN(&p, "sh", "-c", "\"$0\" run -q -n 4 -- sh -c '\"$0\" lines 60 5000 & \"$0\" lines 60 5000 >&2; wait' \"$1\" 2>&1 | dd bs=512 status=none", tandem_path,
        rank_path);
    for (const char *at = p.out; *at != '\0';) {
        const char *newline = strchr(at, '\n');
        assert_non_null(newline);
        size_t length = (size_t)(newline - at);
        assert_true(length == 4 + 9 + 5000 || length == 4 + strlen("tail of 0"));
        at = newline + 1;
    }
    assert_int_equal(count_of(p.out, "\n"), 4 * 2 * 61);
    program_done(&p, 0);
}

static void a_line_arrives_within_200_ms(void **state)
{
    (void)state;
    int64_t best_ns = INT64_MAX; /* of several: other processes may run here */
    for (int i = 0; i < 3 && best_ns > 200 * TDMI_NS_PER_MS; i++) {
        program p;
        START(&p, "TANDEM", "run", "-q", "-n", "2", "RANK", "clock");
        program_await(&p, "\n", 1);
        int64_t delay_ns = tdmi_now_ns() - atoll(strchr(p.out, ']') + 1); /* its ranks stay for a second */
        best_ns = delay_ns < best_ns ? delay_ns : best_ns;
        program_wait(&p, 10);
        program_done(&p, 0);
    }
    assert_in_range(best_ns, 0, 200 * TDMI_NS_PER_MS);
}

static void only_the_chosen_ranks_are_shown(void **state)
{
    (void)state;
    program p;
    RUN(&p, "TANDEM", "run", "-q", "-n", "4", "--only-rank", "0,2-3", "--", "sh", "-c", "echo rank $RANK; echo err $RANK >&2");
    assert_int_equal(p.code, 0);
    assert_null(strstr(p.out, "rank 1"));
    assert_null(strstr(p.err, "err 1"));
    assert_int_equal(count_of(p.out, "rank "), 3);
    assert_int_equal(count_of(p.err, "err "), 3);
    program_done(&p, 0);
}

static void a_log_folder_has_a_file_for_each_rank_and_stream(void **state)
{
    (void)state;
    char folder[] = "/tmp/tandem-test-XXXXXX", path[128], text[64];
    assert_non_null(mkdtemp(folder));
    program p;
    RUN(&p, "TANDEM", "run", "-q", "-n", "2", "--only-rank", "0", "--log-dir", folder, "--", "sh", "-c",
        "printf 'out %s' $RANK; echo err $RANK >&2");
    assert_int_equal(p.code, 0);
    assert_string_equal(p.out, "[0] out 0\n");
    for (int r = 0; r < 2; r++)
        for (int stream = 0; stream < 2; stream++) {
            char expected[32];
            snprintf(path, sizeof path, "%s/rank-%d.%s", folder, r, stream == 0 ? "out" : "err");
            snprintf(expected, sizeof expected, stream == 0 ? "out %d" : "err %d\n", r);
            FILE *file = fopen(path, "r");
            assert_non_null(file);
            text[fread(text, 1, sizeof text - 1, file)] = '\0';
            fclose(file);
            assert_string_equal(text, expected);
            unlink(path);
        }
    assert_int_equal(rmdir(folder), 0);
    program_done(&p, 0);
}

static void rank_0_reads_what_is_piped_in(void **state)
{
    (void)state;
    program p;
    RUN(&p, "sh", "-c", "echo hello | \"$0\" run -q -n 2 -- sh -c 'echo got $(cat)'", tandem_path);
    assert_non_null(strstr(p.out, "[0] got hello\n"));
    assert_non_null(strstr(p.out, "[1] got\n"));
    program_done(&p, 0);
}

int main(int argc, char **argv)
{
    program_paths(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_lines_of_many_ranks_stay_whole),
        cmocka_unit_test(a_slow_reader_loses_nothing),
        cmocka_unit_test(a_reader_that_goes_does_not_stop_the_job),
        cmocka_unit_test(standard_descriptors_may_be_closed_from_the_start),
        cmocka_unit_test(bytes_pass_as_they_are_and_streams_stay_apart),
        cmocka_unit_test(stdout_and_stderr_of_one_file_do_not_mix_lines),
        cmocka_unit_test(a_line_arrives_within_200_ms),
        cmocka_unit_test(only_the_chosen_ranks_are_shown),
        cmocka_unit_test(a_log_folder_has_a_file_for_each_rank_and_stream),
        cmocka_unit_test(rank_0_reads_what_is_piped_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
