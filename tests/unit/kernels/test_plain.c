/* test_plain.c - what the reference kernels do beyond gradients: accumulation, absent outputs, memory in place. */
#include "cases.h"

#include "core/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const case_sizes sizes = {.B = 2, .T = 5, .C = 6, .H = 2, .V = 11, .P = 7, .I = 4, .O = 3};

static void accumulated_outputs_are_added_to(void **state)
{
    (void)state;
    static const tdmi_op ops[] = {TDMI_OP_EMBEDDING_BACKWARD, TDMI_OP_LINEAR_BACKWARD_INPUT, TDMI_OP_LINEAR_BACKWARD_WEIGHT,
                                  TDMI_OP_LAYERNORM_BACKWARD};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (uint32_t bits = 0; bits < 8; bits++) {
            case_sizes adding = sizes;
            adding.accumulate = bits;
            node_case fresh, before, added; /* the same contents in all three */
            case_create(&fresh, ops[i], &sizes, 3);
            case_create(&before, ops[i], &sizes, 3);
            case_create(&added, ops[i], &adding, 3);
            case_run(&fresh, case_plain(ops[i]));
            case_run(&added, case_plain(ops[i]));
            for (int j = 0; j < fresh.io.out_count; j++)
                for (size_t k = 0; fresh.out[j] != NULL && k < tdmi_shape_count(&fresh.io.out[j]); k++) {
                    const float f = ((float *)fresh.out[j])[k], b = (bits >> j & 1) ? ((float *)before.out[j])[k] : 0.0f;
                    assert_true(fabsf(((float *)added.out[j])[k] - (f + b)) <= 1e-5f);
                }
            case_destroy(&fresh);
            case_destroy(&before);
            case_destroy(&added);
        }
}

static void absent_tensors_change_nothing_else(void **state)
{
    (void)state;
    static const tdmi_op ops[] = {TDMI_OP_EMBEDDING_BACKWARD, TDMI_OP_LINEAR_BACKWARD_WEIGHT};
    case_sizes absent = sizes;
    absent.no_bias = absent.no_positions = true;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        node_case with, without;
        case_create(&with, ops[i], &sizes, 3);
        case_create(&without, ops[i], &absent, 3);
        case_run(&with, case_plain(ops[i]));
        case_run(&without, case_plain(ops[i]));
        assert_null(without.out[1]);
        assert_memory_equal(with.out[0], without.out[0], tdmi_shape_nbytes(&with.io.out[0]));
        case_destroy(&with);
        case_destroy(&without);
    }
}

static void a_product_of_small_integers_is_exact(void **state)
{
    (void)state;
    node_case c;
    case_create(&c, TDMI_OP_LINEAR, &(case_sizes){.B = 1, .T = 2, .I = 3, .O = 2}, 1);
    memcpy(c.in[0], (float[]){1, 2, 3, 4, 5, 6}, 6 * sizeof(float));
    memcpy(c.in[1], (float[]){1, 0, -1, 2, 2, 2}, 6 * sizeof(float));
    memcpy(c.in[2], (float[]){10, 20}, 2 * sizeof(float));
    case_run(&c, case_plain(TDMI_OP_LINEAR));
    assert_memory_equal(c.out[0], ((float[]){8, 32, 8, 50}), 4 * sizeof(float));
    case_destroy(&c);
}

static void cross_entropy_of_equal_logits_is_log_of_their_number(void **state)
{
    (void)state;
    node_case c;
    case_create(&c, TDMI_OP_CROSS_ENTROPY, &sizes, 1);
    memset(c.in[0], 0, tdmi_shape_nbytes(&c.io.in[0]));
    case_run(&c, case_plain(TDMI_OP_CROSS_ENTROPY));
    assert_true(fabsf(*(float *)c.out[0] - logf(11.0f)) < 1e-6f);
    case_destroy(&c);
}

static void targets_below_zero_do_not_count_and_the_mean_is_over_all_micro_batches(void **state)
{
    (void)state;
    const case_sizes rows = {.B = 2, .T = 2, .V = 11, .micro_batches = 5, .ignored = true}; /* rows 0, 2 and 3 of 4 count */
    node_case c;
    case_create(&c, TDMI_OP_CROSS_ENTROPY, &rows, 1);
    memset(c.in[0], 0, tdmi_shape_nbytes(&c.io.in[0]));
    case_run(&c, case_plain(TDMI_OP_CROSS_ENTROPY));
    assert_true(fabsf(*(float *)c.out[0] - logf(11.0f) * 3 / 20) < 1e-6f);
    case_destroy(&c);
    case_create(&c, TDMI_OP_CROSS_ENTROPY_BACKWARD, &rows, 1);
    case_run(&c, case_plain(TDMI_OP_CROSS_ENTROPY_BACKWARD));
    const float *logits = c.in[0], *lse = c.in[2], *dlogits = c.out[0];
    for (int n = 0; n < 4; n++)
        for (int v = 0; v < 11; v++) {
            const float p = expf(logits[n * 11 + v] - lse[n]) - (v == ((int32_t *)c.in[1])[n] ? 1.0f : 0.0f);
            assert_true(n == 1 ? dlogits[n * 11 + v] == 0 : fabsf(dlogits[n * 11 + v] - p / 20) < 1e-6f);
        }
    case_destroy(&c);
}

static void dropout_scales_what_it_keeps(void **state)
{
    (void)state;
    node_case c;
    case_create(&c, TDMI_OP_DROPOUT, &sizes, 1);
    case_run(&c, case_plain(TDMI_OP_DROPOUT));
    const float *x = c.in[0], *y = c.out[0];
    for (size_t i = 0; i < tdmi_shape_count(&c.io.in[0]); i++)
        assert_true(y[i] == (((uint8_t *)c.in[1])[i] ? x[i] * 1.25f : 0.0f));
    case_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accumulated_outputs_are_added_to),
        cmocka_unit_test(absent_tensors_change_nothing_else),
        cmocka_unit_test(a_product_of_small_integers_is_exact),
        cmocka_unit_test(cross_entropy_of_equal_logits_is_log_of_their_number),
        cmocka_unit_test(targets_below_zero_do_not_count_and_the_mean_is_over_all_micro_batches),
        cmocka_unit_test(dropout_scales_what_it_keeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
