/* test_optimizer.c - AdamW and SGD against PyTorch's numbers, on every instruction set, cut anyhow. */
#include "optim/isa.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"

enum { CASES = sizeof golden_cases / sizeof golden_cases[0] };

/* Where steps reach 1 in size and PyTorch's square root may be one bit off, after a few steps. */
static void assert_close(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fabsf(a[i] - b[i]) > 3e-7f * fmaxf(1, fabsf(b[i])))
            fail_msg("element %zu: %.9g is not %.9g", i, (double)a[i], (double)b[i]);
}

static void results_are_pytorchs(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        float weight[GOLDEN_COUNT], first[GOLDEN_COUNT] = {0}, second[GOLDEN_COUNT] = {0};
        float *moment[TDMI_MOMENTS_MAX] = {0};
        int moments = tdmi_optimizer_moments(&golden_cases[c].optimizer);
        if (moments > 0)
            moment[0] = first;
        if (moments > 1)
            moment[1] = second;
        memcpy(weight, golden_start, sizeof weight);
        for (int k = 0; k < GOLDEN_STEPS; k++) {
            tdmi_optimizer_step s;
            tdmi_optimizer_step_init(&s, &golden_cases[c].optimizer, k + 1, golden_cases[c].lr, 1);
            tdmi_optimizer_update(&s, true, weight, golden_gradient[k], moment, GOLDEN_COUNT);
            assert_close(weight, golden_cases[c].after[k], GOLDEN_COUNT);
        }
    }
}

typedef struct run {
    float weight[GOLDEN_COUNT], first[GOLDEN_COUNT], second[GOLDEN_COUNT];
} run;

/* All steps of a case, in ranges of at most `most` elements. */
static run run_case(const tdmi_optim_kernels *kernels, int c, size_t most, bool decay, float scale)
{
    run r = {0};
    memcpy(r.weight, golden_start, sizeof r.weight);
    const tdmi_optimizer *o = &golden_cases[c].optimizer;
    bool has_buffer = tdmi_optimizer_moments(o) > 0;
    for (int k = 0; k < GOLDEN_STEPS; k++) {
        tdmi_optimizer_step s;
        tdmi_optimizer_step_init(&s, o, k + 1, golden_cases[c].lr, scale);
        for (size_t at = 0; at < GOLDEN_COUNT; at += most) {
            size_t n = GOLDEN_COUNT - at < most ? GOLDEN_COUNT - at : most;
            if (o->kind == TDMI_OPTIMIZER_ADAMW)
                kernels->adamw(&s, decay, r.weight + at, golden_gradient[k] + at, r.first + at, r.second + at, n);
            else
                kernels->sgd(&s, decay, r.weight + at, golden_gradient[k] + at, has_buffer ? r.first + at : NULL, n);
        }
    }
    return r;
}

static void bits_do_not_depend_on_the_cut_or_the_instruction_set(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        run expected = run_case(&tdmi_optim_kernels_plain, c, GOLDEN_COUNT, true, 0.7f);
        for (int isa = TDMI_ISA_PLAIN; isa <= (int)tdmi_cpu_isa(); isa++)
            for (size_t most = 1; most <= GOLDEN_COUNT; most++) {
                run found = run_case(tdmi_optim_kernels_of((tdmi_isa)isa), c, most, true, 0.7f);
                assert_memory_equal(&found, &expected, sizeof found);
            }
    }
}

static void a_range_without_decay_is_an_optimizer_without_decay(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        tdmi_optimizer none = golden_cases[c].optimizer;
        none.weight_decay = 0;
        float a[GOLDEN_COUNT], b[GOLDEN_COUNT], state_a[2][GOLDEN_COUNT] = {{0}}, state_b[2][GOLDEN_COUNT] = {{0}};
        bool has = tdmi_optimizer_moments(&none) > 0;
        float *moment_a[] = {has ? state_a[0] : NULL, state_a[1]}, *moment_b[] = {has ? state_b[0] : NULL, state_b[1]};
        memcpy(a, golden_start, sizeof a);
        memcpy(b, golden_start, sizeof b);
        for (int k = 0; k < GOLDEN_STEPS; k++) {
            tdmi_optimizer_step s;
            tdmi_optimizer_step_init(&s, &golden_cases[c].optimizer, k + 1, 0.01, 1);
            tdmi_optimizer_update(&s, false, a, golden_gradient[k], moment_a, GOLDEN_COUNT);
            tdmi_optimizer_step_init(&s, &none, k + 1, 0.01, 1);
            tdmi_optimizer_update(&s, true, b, golden_gradient[k], moment_b, GOLDEN_COUNT);
        }
        assert_memory_equal(a, b, sizeof a);
    }
}

static void the_gradient_scale_multiplies_the_gradient_first(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        const tdmi_optimizer *o = &golden_cases[c].optimizer;
        float a[GOLDEN_COUNT], b[GOLDEN_COUNT], scaled[GOLDEN_COUNT], state_a[2][GOLDEN_COUNT] = {{0}}, state_b[2][GOLDEN_COUNT] = {{0}};
        bool has = tdmi_optimizer_moments(o) > 0;
        float *moment_a[] = {has ? state_a[0] : NULL, state_a[1]}, *moment_b[] = {has ? state_b[0] : NULL, state_b[1]};
        memcpy(a, golden_start, sizeof a);
        memcpy(b, golden_start, sizeof b);
        for (int i = 0; i < GOLDEN_COUNT; i++)
            scaled[i] = golden_gradient[1][i] * 0.37f;
        tdmi_optimizer_step s;
        tdmi_optimizer_step_init(&s, o, 1, 0.01, 0.37f);
        tdmi_optimizer_update(&s, true, a, golden_gradient[1], moment_a, GOLDEN_COUNT);
        tdmi_optimizer_step_init(&s, o, 1, 0.01, 1);
        tdmi_optimizer_update(&s, true, b, scaled, moment_b, GOLDEN_COUNT);
        assert_memory_equal(a, b, sizeof a);
    }
}

/* Without a gradient momentum fades: below 1.2e-38 it is 0 and no burden. */
static void momentum_that_fades_ends_at_zero(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        const tdmi_optimizer *o = &golden_cases[c].optimizer;
        if (tdmi_optimizer_moments(o) == 0)
            continue;
        float weight[GOLDEN_COUNT] = {0}, gradient[GOLDEN_COUNT] = {0}, m[GOLDEN_COUNT], v[GOLDEN_COUNT] = {0};
        for (int i = 0; i < GOLDEN_COUNT; i++)
            m[i] = 1.2e-38f;
        tdmi_optimizer_step s;
        tdmi_optimizer_step_init(&s, o, 2, 0.01, 1);
        tdmi_optimizer_update(&s, false, weight, gradient, (float *[]){m, v}, GOLDEN_COUNT);
        for (int i = 0; i < GOLDEN_COUNT; i++)
            assert_true(m[i] == 0);
    }
}

static void moments_have_pytorchs_names(void **state)
{
    (void)state;
    tdmi_optimizer adamw = {.kind = TDMI_OPTIMIZER_ADAMW}, sgd = {.kind = TDMI_OPTIMIZER_SGD};
    assert_int_equal(tdmi_optimizer_moments(&adamw), 2);
    assert_string_equal(tdmi_optimizer_moment_name(&adamw, 0), "exp_avg");
    assert_string_equal(tdmi_optimizer_moment_name(&adamw, 1), "exp_avg_sq");
    assert_int_equal(tdmi_optimizer_moments(&sgd), 0);
    sgd.momentum = 0.9;
    assert_int_equal(tdmi_optimizer_moments(&sgd), 1);
    assert_string_equal(tdmi_optimizer_moment_name(&sgd, 0), "momentum_buffer");
}

static void names_are_read_and_an_unknown_one_is_named(void **state)
{
    (void)state;
    tdmi_optimizer_kind kind;
    assert_int_equal(tdmi_optimizer_parse("sgd", &kind), TDM_OK);
    assert_int_equal(kind, TDMI_OPTIMIZER_SGD);
    assert_string_equal(tdmi_optimizer_name(kind), "sgd");
    assert_int_equal(tdmi_optimizer_parse("adamw", &kind), TDM_OK);
    assert_string_equal(tdmi_optimizer_name(kind), "adamw");
    assert_int_equal(tdmi_optimizer_parse("lion", &kind), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "lion"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_pytorchs),
        cmocka_unit_test(bits_do_not_depend_on_the_cut_or_the_instruction_set),
        cmocka_unit_test(a_range_without_decay_is_an_optimizer_without_decay),
        cmocka_unit_test(the_gradient_scale_multiplies_the_gradient_first),
        cmocka_unit_test(momentum_that_fades_ends_at_zero),
        cmocka_unit_test(moments_have_pytorchs_names),
        cmocka_unit_test(names_are_read_and_an_unknown_one_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
