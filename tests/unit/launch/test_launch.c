/* test_launch.c - tdm_launch as a library call: what `tandem run` cannot show. */
#include "core/clock.h"

#include <tandem/launch.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Launches in a process of its own, whose stdout goes to `said`. After `signal_after_ms` (0: never) it gets a signal. Gives the
 * launch's exit code, or 100 + its status. */
static int launch(const tdm_launch_options *options, int sig, int signal_after_ms, char said[4096])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[1]);
        int code = 0;
        tdm_status status = tdm_launch(options, &code);
        sigset_t mask;
        sigprocmask(SIG_BLOCK, NULL, &mask);
        if (sigismember(&mask, SIGTERM)) /* it puts back what it changed */
            _exit(99);
        _exit(status == TDM_OK ? code : 100 + (int)status);
    }
    close(ends[1]);
    if (signal_after_ms > 0) {
        usleep((useconds_t)signal_after_ms * 1000);
        kill(child, sig);
    }
    size_t used = 0;
    for (ssize_t got; (got = read(ends[0], said + used, 4095 - used)) > 0;)
        used += (size_t)got;
    said[used] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static tdm_launch_options options_for(const char *const *argv, int ranks)
{
    tdm_launch_options options;
    tdm_launch_options_init(&options);
    options.name = "test";
    options.argv = argv;
    options.ranks = ranks;
    options.quiet = true;
    return options;
}

static void rank_0_can_have_the_callers_own_stdout(void **state)
{
    (void)state;
    static const char *const argv[] = {"sh", "-c", "printf \"rank $RANK no newline\"; [ $RANK = 0 ] || exit 0; sleep 0.2; printf ' and more'", NULL};
    tdm_launch_options options = options_for(argv, 2);
    options.inherit_rank0 = true;
    char said[4096];
    assert_int_equal(launch(&options, 0, 0, said), 0);
    assert_non_null(strstr(said, "rank 0 no newline")); /* without a prefix, as it was written */
    assert_null(strstr(said, "[0] "));
    assert_non_null(strstr(said, "[1] rank 1 no newline\n"));
}

static void an_interrupt_can_have_a_grace_time_of_its_own(void **state)
{
    (void)state;
    static const char *const argv[] = {"sh", "-c", "trap '' INT TERM; while :; do sleep 0.05; done", NULL};
    tdm_launch_options options = options_for(argv, 2);
    options.grace_s = 30;
    options.interrupt_grace_s = 0.2;
    char said[4096];
    int64_t start_ns = tdmi_now_ns();
    assert_int_equal(launch(&options, SIGINT, 200, said), 130);
    assert_true(tdmi_now_ns() - start_ns < 5 * TDMI_NS_PER_S);
}

static void ranks_have_their_grace_time_to_finish(void **state)
{
    (void)state;
    static const char *const argv[] = {"sh", "-c", "trap 'sleep 0.4; echo saved; exit 143' TERM; while :; do sleep 0.05; done", NULL};
    tdm_launch_options options = options_for(argv, 2);
    options.grace_s = 10;
    char said[4096];
    assert_int_equal(launch(&options, SIGTERM, 300, said), 143);
    assert_non_null(strstr(said, "[0] saved\n"));
    assert_non_null(strstr(said, "[1] saved\n"));
}

static void what_cannot_start_is_an_error_and_not_an_exit_code(void **state)
{
    (void)state;
    char said[4096];
    tdm_launch_options options = options_for((const char *const[]){"no-such-program", NULL}, 2);
    assert_int_equal(launch(&options, 0, 0, said), 100 + TDM_ERR_INVALID);
    static const char *const argv[] = {"true", NULL};
    options = options_for(argv, 2);
    options.log_dir = "/proc/nowhere";
    assert_int_equal(launch(&options, 0, 0, said), 100 + TDM_ERR_SYSTEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_0_can_have_the_callers_own_stdout),
        cmocka_unit_test(an_interrupt_can_have_a_grace_time_of_its_own),
        cmocka_unit_test(ranks_have_their_grace_time_to_finish),
        cmocka_unit_test(what_cannot_start_is_an_error_and_not_an_exit_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
