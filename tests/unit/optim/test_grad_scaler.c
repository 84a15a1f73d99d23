/* test_grad_scaler.c - the scale step by step, as torch.amp.GradScaler of PyTorch 2.13 has it for the same findings. */
#include "optim/grad_scaler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void the_scale_falls_at_once_and_grows_after_clean_steps(void **state)
{
    (void)state;
    tdmi_grad_scaler s;
    tdmi_grad_scaler_init(&s);
    assert_true(s.scale == 65536.0f && s.growth == 2.0f && s.backoff == 0.5f && s.interval == 2000);
    s.interval = 3;
    /* GradScaler(init_scale=65536, growth_interval=3), found_inf of each step, and get_scale() behind it */
    static const struct {
        bool found;
        float scale;
    } steps[] = {{false, 65536},  {false, 65536}, {false, 131072}, {true, 65536}, {true, 32768},  {false, 32768}, {false, 32768},
                 {true, 16384},   {false, 16384}, {false, 16384},  {false, 32768}, {false, 32768}, {false, 32768}, {false, 65536}};
    int64_t skipped = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        tdmi_grad_scaler_update(&s, steps[i].found);
        skipped += steps[i].found;
        assert_true(s.scale == steps[i].scale);
        assert_int_equal(s.skipped, skipped);
    }
}

static void a_scale_that_would_overflow_stays(void **state)
{
    (void)state;
    tdmi_grad_scaler s;
    tdmi_grad_scaler_init(&s);
    s.interval = 1;
    s.scale = 0x1p127f;
    tdmi_grad_scaler_update(&s, false);
    assert_true(s.scale == 0x1p127f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scale_falls_at_once_and_grows_after_clean_steps),
        cmocka_unit_test(a_scale_that_would_overflow_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
