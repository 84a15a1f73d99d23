/* test_run.c - `tandem run`: ranks, ports, failures, threads. */
#include "program.h"

#include "core/cpu.h"
#include "store/socket.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void every_rank_knows_its_place(void **state)
{
    (void)state;
    program p;
    RUN(&p, "TANDEM", "run", "-q", "-n", "3", "--", "sh", "-c",
        "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK $ROLE_RANK $MASTER_ADDR ${MASTER_PORT:+port} "
        "$TORCHELASTIC_RUN_ID $TORCHELASTIC_USE_AGENT_STORE ${#TANDEM_JOB_SECRET}");
    assert_int_equal(p.code, 0);
    assert_string_equal(p.err, "");
    for (int r = 0; r < 3; r++) {
        char line[128];
        snprintf(line, sizeof line, "[%d] %d/3 %d/3 0 %d 127.0.0.1 port %s False 32\n", r, r, r, r, p.job_id);
        assert_non_null(strstr(p.out, line));
    }
    program_done(&p, 0);
}

static void one_rank_writes_without_a_prefix(void **state)
{
    (void)state;
    program p;
    RUN(&p, "TANDEM", "run", "-q", "-n", "1", "--", "sh", "-c", "echo out; echo err >&2");
    assert_string_equal(p.out, "out\n");
    assert_string_equal(p.err, "err\n");
    program_done(&p, 0);
}

static void a_python_file_runs_under_python3(void **state)
{
    (void)state;
    char path[] = "/tmp/tandem-test-XXXXXX.py";
    int fd = mkstemps(path, 3);
    static const char text[] = "import os, sys\nprint('py', os.environ['RANK'], sys.argv[1:])\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    program p;
    RUN(&p, "TANDEM", "run", "-q", "-n", "2", path, "--flag", "x");
    unlink(path);
    assert_int_equal(p.code, 0);
    assert_non_null(strstr(p.out, "[0] py 0 ['--flag', 'x']\n"));
    assert_non_null(strstr(p.out, "[1] py 1 ['--flag', 'x']\n"));
    program_done(&p, 0);
}

static void the_first_failing_rank_gives_code_and_message(void **state)
{
    (void)state;
    program p;
    RUN(&p, "TANDEM", "run", "-q", "-n", "3", "RANK", "fail", "1", "7");
    assert_int_equal(p.code, 7);
    assert_true(p.seconds < 3);
    assert_non_null(strstr(p.err, "[1] last words of 1\n"));
    assert_non_null(strstr(p.err, "tandem run: rank 1 ended with exit code 7; its last line on stderr: last words of 1\n"));
    assert_int_equal(count_of(p.err, "tandem run:"), 1);
    program_done(&p, 0);
}

static void a_rank_ended_by_a_signal_gives_128_and_its_number(void **state)
{
    (void)state;
    program p;
    RUN(&p, "TANDEM", "run", "-q", "-n", "2", "RANK", "fail", "0", "-9");
    assert_int_equal(p.code, 137);
    assert_non_null(strstr(p.err, "tandem run: rank 0 was ended by SIGKILL (Killed)"));
    program_done(&p, 0);
}

static void a_rank_that_lost_its_peer_is_not_the_culprit(void **state)
{
    (void)state;
    program p; /* rank 0 notices first, with the exit code for it */
    RUN(&p, "TANDEM", "run", "-q", "-n", "2", "--", "sh", "-c", "[ $RANK = 0 ] && exit 4; sleep 0.03; kill -SEGV $$");
    assert_int_equal(p.code, 139);
    assert_non_null(strstr(p.err, "rank 1 was ended by SIGSEGV"));
    assert_null(strstr(p.err, "rank 0"));
    program_done(&p, 0);
}

static void wrong_command_lines_are_one_line_and_code_2(void **state)
{
    (void)state;
    static const struct {
        const char *words[8], *expected;
    } cases[] = {
        {{"TANDEM", "run"}, "no program to run"},
        {{"TANDEM", "run", "-n", "2", "no-such-program"}, "cannot run no-such-program: no such program in PATH"},
        {{"TANDEM", "run", "/"}, "cannot run /: Is a directory"},
        {{"TANDEM", "run", "/nowhere/x.py"}, "cannot run /nowhere/x.py: No such file"},
        {{"TANDEM", "run", "-n", "0", "true"}, "-n 0: a whole number from 1 to 4096 is needed"},
        {{"TANDEM", "run", "-n", "-2", "true"}, "-n -2: a whole number"},
        {{"TANDEM", "run", "--max-restarts", "3", "true"}, "unknown option --max-restarts"},
        {{"TANDEM", "run", "--only-rank", "3-1", "true"}, "\"3-1\" is not a list of ranks"},
        {{"TANDEM", "run", "--nnodes", "2", "true"}, "2 nodes need --rdzv HOST:PORT"},
        {{"TANDEM", "run", "--nnodes", "2", "--rdzv", "host", "true"}, "\"host\" is not HOST:PORT"},
        {{"TANDEM", "run", "--nnodes", "2", "--rdzv", "h:1234", "true"}, "set TANDEM_JOB_SECRET to the same value on all nodes"},
        {{"TANDEM", "run", "--node-rank", "2", "true"}, "node rank 2: with 1 node it is from 0 to 0"},
        {{"TANDEM", "rum"}, "tandem: unknown command rum; did you mean run?"},
        {{"TANDEM"}, "no command"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program p;
        program_start(&p, cases[i].words);
        program_wait(&p, 10);
        assert_int_equal(p.code, 2);
        assert_string_equal(p.out, "");
        assert_non_null(strstr(p.err, cases[i].expected));
        assert_int_equal(count_of(p.err, "\n"), 1);
        program_done(&p, 0);
    }
}

static void version_and_help_are_on_stdout(void **state)
{
    (void)state;
    static const struct {
        const char *words[4], *expected;
    } cases[] = {
        {{"TANDEM", "--version"}, "tandem 0.1.0\n"},
        {{"TANDEM", "run", "--version"}, "tandem 0.1.0\n"},
        {{"TANDEM", "--help"}, "TANDEM_JOB_SECRET"},
        {{"TANDEM", "run", "--help"}, "[0 to 86400; default 5]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program p;
        program_start(&p, cases[i].words);
        program_wait(&p, 10);
        assert_int_equal(p.code, 0);
        assert_string_equal(p.err, "");
        assert_non_null(strstr(p.out, cases[i].expected));
        program_done(&p, 0);
    }
}

/* ---- ports: several jobs on one host ---- */

static void twenty_jobs_at_once_need_no_options(void **state)
{
    (void)state;
    enum { JOBS = 20 };
    program p[JOBS];
    for (int i = 0; i < JOBS; i++)
        START(&p[i], "TANDEM", "run", "-q", "-n", "2", "RANK", "meet");
    for (int i = 0; i < JOBS; i++) {
        program_wait(&p[i], 30);
        if (p[i].code != 0)
            fail_msg("job %d: code %d: %s", i, p[i].code, p[i].err);
        program_done(&p[i], 0);
    }
}

static void jobs_follow_each_other_without_pause_on_one_port(void **state)
{
    (void)state;
    int fd, port;
    char text[16];
    assert_int_equal(tdmi_socket_listen(NULL, 0, &fd, &port), 0);
    close(fd);
    snprintf(text, sizeof text, "%d", port);
    for (int i = 0; i < 15; i++) {
        program p;
        RUN(&p, "TANDEM", "run", "-q", "-n", "2", "--port", text, "RANK", "meet");
        if (p.code != 0)
            fail_msg("run %d: code %d: %s", i, p.code, p.err);
        program_done(&p, 0);
    }
}

static void a_taken_port_is_one_line_at_once(void **state)
{
    (void)state;
    int fd, port;
    char text[16], expected[96];
    assert_int_equal(tdmi_socket_listen("127.0.0.1", 0, &fd, &port), 0);
    snprintf(text, sizeof text, "%d", port);
    snprintf(expected, sizeof expected, "tandem run: port %d is taken by pid %d (", port, (int)getpid());
    program p;
    RUN(&p, "TANDEM", "run", "-n", "2", "--port", text, "true");
    close(fd);
    assert_int_equal(p.code, 1);
    assert_true(p.seconds < 2);
    assert_ptr_equal(strstr(p.err, expected), p.err);
    assert_int_equal(count_of(p.err, "\n"), 1);
    program_done(&p, 0);
}

/* ---- threads and CPUs ---- */

static void threads_follow_from_cpus_and_ranks(void **state)
{
    (void)state;
    int usable = tdmi_cpu_usable();
    for (int ranks = 1; ranks <= 3; ranks++) {
        char n[8], expected[32];
        program p;
        snprintf(n, sizeof n, "%d", ranks);
        snprintf(expected, sizeof expected, "omp %d cpus", usable / ranks > 0 ? usable / ranks : 1);
        RUN(&p, "TANDEM", "run", "-n", n, "RANK", "threads");
        assert_int_equal(p.code, 0);
        assert_int_equal(count_of(p.out, expected), ranks);
        assert_int_equal(count_of(p.err, "OMP_NUM_THREADS="), 1); /* said once */
        if (ranks > usable)
            assert_non_null(strstr(p.err, "share"));
        program_done(&p, 0);
    }
}

static void the_users_thread_count_is_kept(void **state)
{
    (void)state;
    program p;
    setenv("OMP_NUM_THREADS", "4", 1);
    RUN(&p, "TANDEM", "run", "-n", "2", "RANK", "threads");
    unsetenv("OMP_NUM_THREADS");
    assert_int_equal(count_of(p.out, "omp 4 cpus"), 2);
    assert_non_null(strstr(p.err, "OMP_NUM_THREADS=4 kept"));
    program_done(&p, 0);
}

static void ranks_are_bound_to_disjoint_cpus(void **state)
{
    (void)state;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < 2)
        skip(); /* one CPU cannot be shared out */
    program p;
    RUN(&p, "TANDEM", "run", "-q", "-n", "2", "RANK", "threads");
    char *zero = strstr(p.out, "[0] omp"), *one = strstr(p.out, "[1] omp");
    assert_non_null(zero);
    assert_non_null(one);
    char *save_a, *save_b, a[512], b[512];
    int shared = 0, counted = 0;
    snprintf(a, sizeof a, "%.*s", (int)strcspn(strstr(zero, "cpus"), "\n"), strstr(zero, "cpus"));
    strtok_r(a, " ", &save_a);
    for (char *x; (x = strtok_r(NULL, " ", &save_a)) != NULL; counted++) {
        snprintf(b, sizeof b, "%.*s", (int)strcspn(strstr(one, "cpus"), "\n"), strstr(one, "cpus"));
        strtok_r(b, " ", &save_b);
        for (char *y; (y = strtok_r(NULL, " ", &save_b)) != NULL;)
            shared += strcmp(x, y) == 0;
    }
    assert_true(counted > 0);
    assert_int_equal(shared, 0);
    program_done(&p, 0);
}

#if defined(__has_feature)
#define IS_SANITIZED (__has_feature(thread_sanitizer) || __has_feature(address_sanitizer))
#else
#define IS_SANITIZED 0
#endif

static void eight_ranks_of_nothing_take_under_50_ms(void **state)
{
    (void)state;
    if (IS_SANITIZED)
        skip(); /* another program, as far as speed goes */
    double best = 1e9; /* of several: other processes may run here */
    for (int i = 0; i < 10 && best > 0.05; i++) {
        program p;
        RUN(&p, "TANDEM", "run", "-q", "-n", "8", "--", "true");
        assert_int_equal(p.code, 0);
        best = p.seconds < best ? p.seconds : best;
        program_done(&p, 0);
    }
    assert_true(best <= 0.05);
}

static void nothing_is_left_in_shared_memory(void **state)
{
    if (*(bool *)*state)
        assert_int_equal(shm_files(), 0);
    else
        skip(); /* no right to a /dev/shm of our own */
}

int main(int argc, char **argv)
{
    program_paths(argc, argv);
    static bool shm_is_private;
    shm_is_private = private_shm();
    static void *shm_state = &shm_is_private;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_knows_its_place),
        cmocka_unit_test(one_rank_writes_without_a_prefix),
        cmocka_unit_test(a_python_file_runs_under_python3),
        cmocka_unit_test(the_first_failing_rank_gives_code_and_message),
        cmocka_unit_test(a_rank_ended_by_a_signal_gives_128_and_its_number),
        cmocka_unit_test(a_rank_that_lost_its_peer_is_not_the_culprit),
        cmocka_unit_test(wrong_command_lines_are_one_line_and_code_2),
        cmocka_unit_test(version_and_help_are_on_stdout),
        cmocka_unit_test(twenty_jobs_at_once_need_no_options),
        cmocka_unit_test(jobs_follow_each_other_without_pause_on_one_port),
        cmocka_unit_test(a_taken_port_is_one_line_at_once),
        cmocka_unit_test(threads_follow_from_cpus_and_ranks),
        cmocka_unit_test(the_users_thread_count_is_kept),
        cmocka_unit_test(ranks_are_bound_to_disjoint_cpus),
        cmocka_unit_test(eight_ranks_of_nothing_take_under_50_ms),
        cmocka_unit_test_prestate(nothing_is_left_in_shared_memory, shm_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
