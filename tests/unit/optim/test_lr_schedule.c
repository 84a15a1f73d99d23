/* test_lr_schedule.c - learning rates at chosen steps. */
#include "optim/lr_schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void assert_lr(const tdmi_schedule *s, int64_t step, double expected)
{
    double lr = tdmi_schedule_lr(s, step);
    if (fabs(lr - expected) > 1e-12)
        fail_msg("step %lld: %.15g is not %.15g", (long long)step, lr, expected);
}

static void warm_up_is_a_line_that_ends_at_the_highest_rate(void **state)
{
    (void)state;
    for (int kind = TDMI_SCHEDULE_CONSTANT; kind <= TDMI_SCHEDULE_COSINE; kind++) {
        tdmi_schedule s = {.kind = (tdmi_schedule_kind)kind, .lr = 0.2, .end_fraction = 0.1, .warmup = 40, .steps = 800};
        assert_lr(&s, 1, 0.2 / 40);
        assert_lr(&s, 20, 0.1);
        assert_lr(&s, 40, 0.2);
    }
}

static void cosine_falls_to_its_fraction_at_the_last_step(void **state)
{
    (void)state;
    tdmi_schedule s = {.kind = TDMI_SCHEDULE_COSINE, .lr = 2e-3, .end_fraction = 0.1, .warmup = 40, .steps = 800};
    assert_lr(&s, 420, 2e-3 * 0.55);
    assert_lr(&s, 800, 2e-4);
    assert_lr(&s, 5000, 2e-4);
    assert_lr(&s, 230, 2e-3 * (0.1 + 0.9 * 0.5 * (1 + sqrt(0.5)))); /* a quarter of the way */
}

static void linear_falls_to_its_fraction_and_constant_stays(void **state)
{
    (void)state;
    tdmi_schedule s = {.kind = TDMI_SCHEDULE_LINEAR, .lr = 1, .end_fraction = 0, .warmup = 0, .steps = 10};
    assert_lr(&s, 1, 0.9);
    assert_lr(&s, 5, 0.5);
    assert_lr(&s, 10, 0);
    s.kind = TDMI_SCHEDULE_CONSTANT;
    assert_lr(&s, 1, 1);
    assert_lr(&s, 1000, 1);
}

static void a_run_that_ends_in_its_warm_up_stays_on_the_line(void **state)
{
    (void)state;
    tdmi_schedule s = {.kind = TDMI_SCHEDULE_COSINE, .lr = 1, .end_fraction = 0.1, .warmup = 10, .steps = 10};
    assert_lr(&s, 10, 1);
    s.steps = 4;
    assert_lr(&s, 4, 0.4);
}

static void names_are_read_and_an_unknown_one_is_named(void **state)
{
    (void)state;
    for (int kind = TDMI_SCHEDULE_CONSTANT; kind <= TDMI_SCHEDULE_COSINE; kind++) {
        tdmi_schedule_kind found;
        assert_int_equal(tdmi_schedule_parse(tdmi_schedule_name((tdmi_schedule_kind)kind), &found), TDM_OK);
        assert_int_equal(found, kind);
    }
    tdmi_schedule_kind found;
    assert_int_equal(tdmi_schedule_parse("step", &found), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "step"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_up_is_a_line_that_ends_at_the_highest_rate),
        cmocka_unit_test(cosine_falls_to_its_fraction_at_the_last_step),
        cmocka_unit_test(linear_falls_to_its_fraction_and_constant_stays),
        cmocka_unit_test(a_run_that_ends_in_its_warm_up_stays_on_the_line),
        cmocka_unit_test(names_are_read_and_an_unknown_one_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
