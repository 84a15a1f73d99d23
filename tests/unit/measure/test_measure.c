/* test_measure.c - what is called how often, and quantiles of known samples. */
#include "measure/measure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

static tdm_status count_calls(void *arg)
{
    ++*(int *)arg;
    return TDM_OK;
}

static tdm_status fail_at_the_fifth(void *arg)
{
    return ++*(int *)arg == 5 ? TDM_ERR_TIMEOUT : TDM_OK;
}

static tdm_status sleep_a_millisecond(void *arg)
{
    (void)arg;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return TDM_OK;
}

static void every_sample_holds_the_asked_number_of_calls(void **state)
{
    (void)state;
    int calls = 0;
    double ns[4];
    assert_int_equal(tdmi_measure(count_calls, &calls, 3, 4, 5, ns), TDM_OK);
    assert_int_equal(calls, 3 + 4 * 5);
}

static void the_first_failure_ends_it(void **state)
{
    (void)state;
    int calls = 0;
    double ns[10];
    assert_int_equal(tdmi_measure(fail_at_the_fifth, &calls, 2, 10, 1, ns), TDM_ERR_TIMEOUT);
    assert_int_equal(calls, 5);
}

static void a_sample_is_the_time_of_one_call(void **state)
{
    (void)state;
    double ns[3];
    assert_int_equal(tdmi_measure(sleep_a_millisecond, NULL, 0, 3, 2, ns), TDM_OK);
    for (int i = 0; i < 3; i++)
        assert_true(ns[i] >= 1e6 && ns[i] < 1e9);
}

static void quantiles_of_known_samples(void **state)
{
    (void)state;
    double eleven[] = {10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5}, two[] = {4, 2}, one[] = {3}, zero[] = {0, 0};
    tdmi_summary s = tdmi_summarise(eleven, 11);
    assert_true(s.median == 5 && s.p10 == 1 && s.p90 == 9 && s.spread == 8.0 / 5);
    assert_true(tdmi_summarise(two, 2).median == 3);
    s = tdmi_summarise(one, 1);
    assert_true(s.median == 3 && s.p10 == 3 && s.p90 == 3 && s.spread == 0);
    assert_true(tdmi_summarise(zero, 2).spread == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_holds_the_asked_number_of_calls),
        cmocka_unit_test(the_first_failure_ends_it),
        cmocka_unit_test(a_sample_is_the_time_of_one_call),
        cmocka_unit_test(quantiles_of_known_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
