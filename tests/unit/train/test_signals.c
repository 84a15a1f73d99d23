/* test_signals.c - what handlers write, and that everything is put back. */
#include "train/signals.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void block(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static void an_interrupt_and_a_request_to_end_are_told_apart(void **state)
{
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        tdmi_signals_begin();
        tdmi_signals_install();
        assert_int_equal(tdmi_signals_received(), 0);
        raise(numbers[i]);
        assert_int_equal(tdmi_signals_received(), numbers[i]);
        assert_int_equal(*tdmi_signals_interrupt(), numbers[i] == SIGINT);
        tdmi_signals_restore();
    }
}

static void handlers_and_mask_are_put_back(void **state)
{
    (void)state;
    struct sigaction action, ignore = {.sa_handler = SIG_IGN};
    sigset_t mask;
    sigaction(SIGINT, &ignore, NULL);
    block(SIGTERM);
    tdmi_signals_begin();
    sigprocmask(SIG_BLOCK, NULL, &mask);
    assert_false(sigismember(&mask, SIGTERM));
    tdmi_signals_install();
    tdmi_signals_restore();
    sigaction(SIGINT, NULL, &action);
    assert_ptr_equal(action.sa_handler, SIG_IGN);
    sigaction(SIGTERM, NULL, &action);
    assert_ptr_equal(action.sa_handler, SIG_DFL);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    assert_true(sigismember(&mask, SIGTERM));
    signal(SIGINT, SIG_DFL);
}

static int end_of_child(void (*body)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        body();
        _exit(7);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void twice(void)
{
    tdmi_signals_begin();
    tdmi_signals_install();
    raise(SIGINT);
    raise(SIGTERM);
}

static void before_ranks_have_met(void)
{
    block(SIGTERM);
    raise(SIGTERM); /* waits */
    tdmi_signals_begin();
}

static void behind_the_run(void)
{
    block(SIGTERM);
    tdmi_signals_begin();
    tdmi_signals_install();
    tdmi_signals_restore();
    raise(SIGTERM); /* waits: the message comes out */
}

static void the_second_signal_kills(void **state)
{
    (void)state;
    assert_int_equal(end_of_child(twice), 128 + SIGTERM);
}

static void outside_of_the_run_signals_have_their_usual_effect_or_wait(void **state)
{
    (void)state;
    assert_int_equal(end_of_child(before_ranks_have_met), 128 + SIGTERM);
    assert_int_equal(end_of_child(behind_the_run), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interrupt_and_a_request_to_end_are_told_apart),
        cmocka_unit_test(handlers_and_mask_are_put_back),
        cmocka_unit_test(the_second_signal_kills),
        cmocka_unit_test(outside_of_the_run_signals_have_their_usual_effect_or_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
