/* test_run_signals.c - `tandem run` and signals: everything ends, however it is ended and whatever the ranks do. */
#include "program.h"

#include "core/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void a_deaf_grandchild_is_killed_after_the_grace_time(void **state)
{
    (void)state;
    program p; /* the shell dies of SIGTERM, the program behind it ignores it */
    START(&p, "TANDEM", "run", "-q", "-n", "2", "--grace", "0.4", "--", "sh", "-c", "\"$0\" stay; true", rank_path);
    program_await(&p, "ready", 2);
    int64_t start_ns = tdmi_now_ns();
    kill(p.pid, SIGTERM);
    program_wait(&p, 10);
    assert_int_equal(p.code, 143);
    assert_in_range(tdmi_now_ns() - start_ns, 390 * TDMI_NS_PER_MS, 2400 * TDMI_NS_PER_MS);
    program_done(&p, 0);
}

static void polite_ranks_end_at_once(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        program p; /* a shell that has said so itself could lose SIGINT on the way to its exec */
        START(&p, "TANDEM", "run", "-q", "-n", "2", "--", "sh", "-c", "ulimit -c 0; exec \"$0\" linger", rank_path);
        program_await(&p, "ready", 2);
        int64_t start_ns = tdmi_now_ns();
        kill(p.pid, signals[i]);
        program_wait(&p, 10);
        assert_int_equal(p.code, 128 + signals[i]);
        assert_true(tdmi_now_ns() - start_ns < 2 * TDMI_NS_PER_S);
        assert_string_equal(p.err, ""); /* who asked for the end needs no report of it */
        program_done(&p, 0);
    }
}

static void the_whole_group_gets_the_signal(void **state)
{
    (void)state;
    program p; /* the child of the shell reacts to SIGINT itself */
    START(&p, "TANDEM", "run", "-q", "-n", "2", "--", "sh", "-c",
          "sh -c 'trap \"echo inner; exit 0\" INT; echo ready; while :; do sleep 0.05; done'; echo outer");
    program_await(&p, "ready", 2);
    kill(p.pid, SIGINT);
    program_wait(&p, 10);
    assert_int_equal(p.code, 130);
    assert_int_equal(count_of(p.out, "inner"), 2);
    program_done(&p, 0);
}

static void a_second_signal_kills_at_once(void **state)
{
    (void)state;
    program p;
    START(&p, "TANDEM", "run", "-q", "-n", "2", "--grace", "50", "RANK", "stay");
    program_await(&p, "ready", 2);
    kill(p.pid, SIGINT);
    usleep(100000);
    int64_t start_ns = tdmi_now_ns();
    kill(p.pid, SIGINT);
    program_wait(&p, 10);
    assert_int_equal(p.code, 130);
    assert_true(tdmi_now_ns() - start_ns < 2 * TDMI_NS_PER_S);
    program_done(&p, 0);
}

static void user_signals_reach_those_that_handle_them_once(void **state)
{
    (void)state;
    program p;
    START(&p, "TANDEM", "run", "-q", "-n", "2", "--", "sh", "-c", "\"$0\" user 700; r=$?; echo shell lives; exit $r", rank_path);
    program_await(&p, "ready", 2);
    kill(p.pid, SIGUSR1);
    program_wait(&p, 10);
    assert_int_equal(p.code, 0); /* the program fails unless it got exactly one */
    assert_int_equal(count_of(p.out, "usr1"), 2);
    assert_int_equal(count_of(p.out, "shell lives"), 2);
    program_done(&p, 0);
}

static void a_user_signal_that_nobody_handles_kills_nobody(void **state)
{
    (void)state;
    program p;
    START(&p, "TANDEM", "run", "-q", "-n", "2", "--", "sh", "-c", "echo ready; sleep 0.4");
    program_await(&p, "ready", 2);
    kill(p.pid, SIGUSR2);
    program_wait(&p, 10);
    assert_int_equal(p.code, 0);
    assert_non_null(strstr(p.err, "rank 0 has no handler for SIGUSR2: not sent"));
    program_done(&p, 0);
}

static void what_escapes_from_its_rank_is_found_and_killed(void **state)
{
    (void)state;
    program p; /* ranks end well, and leave a deaf process outside of their POSIX session that holds their output open */
    RUN(&p, "TANDEM", "run", "-q", "-n", "2", "RANK", "escape");
    assert_int_equal(p.code, 0);
    assert_int_equal(count_of(p.out, "ready"), 2);
    assert_true(p.seconds < 4);
    program_done(&p, 0);
}

static void when_a_rank_fails_escaped_processes_end_too(void **state)
{
    (void)state;
    program p;
    RUN(&p, "TANDEM", "run", "-q", "-n", "2", "--grace", "0.2", "--", "sh", "-c", "\"$0\" escape; exit 3", rank_path);
    assert_int_equal(p.code, 3);
    program_done(&p, 0);
}

static void a_killed_launcher_takes_everything_with_it(void **state)
{
    (void)state;
    program p;
    START(&p, "TANDEM", "run", "-q", "-n", "2", "--", "sh", "-c", "\"$0\" escape; \"$0\" stay; true", rank_path);
    program_await(&p, "ready", 4);
    assert_true(program_left(&p) >= 7); /* launcher, shells, programs, escaped ones */
    kill(p.pid, SIGKILL);
    program_wait(&p, 10);
    assert_int_equal(p.code, 137);
    program_done(&p, 2);
}

static void a_stopped_rank_is_ended_too(void **state)
{
    (void)state;
    program p;
    START(&p, "TANDEM", "run", "-q", "-n", "2", "--", "sh", "-c", "echo ready; kill -STOP $$; sleep 60");
    program_await(&p, "ready", 2);
    usleep(50000);
    int64_t start_ns = tdmi_now_ns();
    kill(p.pid, SIGTERM);
    program_wait(&p, 10);
    assert_int_equal(p.code, 143);
    assert_true(tdmi_now_ns() - start_ns < 2 * TDMI_NS_PER_S);
    program_done(&p, 0);
}

static void a_job_within_a_job_ends_alone(void **state)
{
    (void)state;
    program p; /* the inner launcher is killed; the outer job goes on */
    RUN(&p, "TANDEM", "run", "-q", "-n", "1", "--", "sh", "-c",
        "\"$0\" run -q -n 2 \"$1\" stay & inner=$!; sleep 0.3; kill -9 $inner; sleep 0.4; echo outer lives", tandem_path, rank_path);
    assert_int_equal(p.code, 0);
    assert_non_null(strstr(p.out, "outer lives"));
    program_done(&p, 0);
}

int main(int argc, char **argv)
{
    program_paths(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deaf_grandchild_is_killed_after_the_grace_time),
        cmocka_unit_test(polite_ranks_end_at_once),
        cmocka_unit_test(the_whole_group_gets_the_signal),
        cmocka_unit_test(a_second_signal_kills_at_once),
        cmocka_unit_test(user_signals_reach_those_that_handle_them_once),
        cmocka_unit_test(a_user_signal_that_nobody_handles_kills_nobody),
        cmocka_unit_test(what_escapes_from_its_rank_is_found_and_killed),
        cmocka_unit_test(when_a_rank_fails_escaped_processes_end_too),
        cmocka_unit_test(a_killed_launcher_takes_everything_with_it),
        cmocka_unit_test(a_stopped_rank_is_ended_too),
        cmocka_unit_test(a_job_within_a_job_ends_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
