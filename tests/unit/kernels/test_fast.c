/* test_fast.c - every fast kernel that this CPU runs against the plain one, on odd and on common shapes.
 *
 * Tolerance: plain kernels sum in double and round once, so the difference is the fast kernel's own rounding: about
 * sqrt(terms) x 6e-8 of the sum of the terms' sizes. Inputs are of size 1, so 2e-6 x (1 + the root of the longest sum's terms)
 * of the result's largest element is several times what was seen, and far below any wrong term. Results of 16 bits may differ by
 * one rounding more, where the two fall on either side of a middle. */
#include "cases.h"

#include "core/cpu.h"
#include "core/memory.h"
#include "kernels/plain/element.h"
#include "kernels/threads.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static double largest(tdm_dtype type, const void *values, size_t count)
{
    double most = 0.0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)tdmi_element(type, values, (int64_t)i)));
    return most;
}

/* One rounding to a type of 16 bits. */
static double rounding(tdm_dtype type)
{
    return type == TDM_BF16 ? 1.0 / 128 : type == TDM_F16 ? 1.0 / 1024 : 0.0;
}

static void compare(const node_case *expected, const node_case *found, const tdmi_kernel *kernel, const case_sizes *s,
                    double tolerance)
{
    for (int j = 0; j < expected->io.out_count; j++) {
        if (expected->out[j] == NULL)
            continue;
        const size_t count = tdmi_shape_count(&expected->io.out[j]);
        const tdm_dtype type = expected->io.out[j].dtype;
        const double most = tolerance * (1.0 + largest(type, expected->out[j], count));
        for (size_t i = 0; i < count; i++) {
            const double e = (double)tdmi_element(type, expected->out[j], (int64_t)i);
            const double f = (double)tdmi_element(type, found->out[j], (int64_t)i);
            const double bound = most + rounding(type) * fabs(e);
            if (!(fabs(e - f) <= bound))
                fail_msg("%s output %d element %zu of %s: %.9g, plain %.9g, bound %.3g (B %d T %d C %d H %d V %d I %d O %d)",
                         kernel->name, j, i, tdm_dtype_name(type), f, e, bound, (int)s->B, (int)s->T, (int)s->C, (int)s->H,
                         (int)s->V, (int)s->I, (int)s->O);
        }
    }
}

/* Each fast kernel of the op, on 1, 2 and 3 threads; these must agree bit for bit. */
static void check(tdmi_op op, const case_sizes *sizes)
{
    const tdmi_kernel *const *kernels;
    const size_t count = tdmi_kernels_of(op, &kernels);
    int64_t terms = sizes->B * sizes->T;
    const int64_t sums[] = {sizes->C, sizes->V, sizes->I, sizes->O};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        terms = terms > sums[i] ? terms : sums[i];
    node_case plain;
    case_create(&plain, op, sizes, 11);
    case_run(&plain, case_plain(op));
    for (size_t i = 0; i + 1 < count; i++) {
        if (kernels[i]->isa > (int)tdmi_cpu_isa() || (kernels[i]->supports != NULL && !kernels[i]->supports(&plain.io)))
            continue;
        node_case one;
        case_create(&one, op, sizes, 11);
        tdmi_kernels_set_threads(1);
        case_run(&one, kernels[i]);
        compare(&plain, &one, kernels[i], sizes, 2e-6 * (1.0 + sqrt((double)terms)));
        for (int threads = 2; threads <= 3; threads++) {
            node_case more;
            case_create(&more, op, sizes, 11);
            tdmi_kernels_set_threads(threads);
            case_run(&more, kernels[i]);
            for (int j = 0; j < one.io.out_count; j++)
                if (one.out[j] != NULL)
                    assert_memory_equal(one.out[j], more.out[j], tdmi_shape_nbytes(&one.io.out[j]));
            case_destroy(&more);
        }
        tdmi_kernels_set_threads(1);
        case_destroy(&one);
    }
    case_destroy(&plain);
}

static void products_equal_plain_ones(void **state)
{
    (void)state;
    static const tdmi_op ops[] = {TDMI_OP_LINEAR, TDMI_OP_LINEAR_BACKWARD_INPUT, TDMI_OP_LINEAR_BACKWARD_WEIGHT,
                                   TDMI_OP_LINEAR_GELU, TDMI_OP_LINEAR_BACKWARD_INPUT_GELU};
    static const case_sizes sizes[] = {
        {.B = 1, .T = 1, .I = 1, .O = 1},
        {.B = 1, .T = 1, .I = 64, .O = 100, .no_bias = true},
        {.B = 1, .T = 3, .I = 33, .O = 17},
        {.B = 3, .T = 5, .I = 20, .O = 70, .accumulate = 1},
        {.B = 2, .T = 31, .I = 100, .O = 10, .accumulate = 2},
        {.B = 4, .T = 16, .I = 128, .O = 97, .no_bias = true, .accumulate = 3},
        {.B = 1, .T = 7, .I = 512, .O = 512, .accumulate = 3},
        {.B = 1, .T = 530, .I = 47, .O = 61},
        {.B = 5, .T = 61, .I = 40, .O = 112},
        {.B = 1, .T = 130, .I = 801, .O = 1024},
        {.B = 1, .T = 12, .I = 1001, .O = 801, .accumulate = 1},
    };
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check(ops[o], &sizes[i]);
}

static const tdmi_op row_ops[] = {
    TDMI_OP_EMBEDDING,     TDMI_OP_EMBEDDING_BACKWARD, TDMI_OP_LAYERNORM, TDMI_OP_LAYERNORM_BACKWARD,
    TDMI_OP_RESIDUAL,      TDMI_OP_ADD,                TDMI_OP_GELU,      TDMI_OP_GELU_BACKWARD,
    TDMI_OP_DROPOUT,       TDMI_OP_DROPOUT_BACKWARD,   TDMI_OP_CROSS_ENTROPY,
    TDMI_OP_CROSS_ENTROPY_BACKWARD, TDMI_OP_RESIDUAL_LAYERNORM,
};

static void row_kernels_equal_plain_ones(void **state)
{
    (void)state;
    static const case_sizes sizes[] = {
        {.B = 1, .T = 1, .C = 1, .V = 1, .P = 1},
        {.B = 1, .T = 3, .C = 7, .V = 9, .P = 3, .no_positions = true},
        {.B = 2, .T = 9, .C = 33, .V = 65, .P = 11, .accumulate = 1},
        {.B = 3, .T = 5, .C = 130, .V = 1001, .P = 5, .accumulate = 6, .spread = 9},
        {.B = 2, .T = 37, .C = 256, .V = 256, .P = 64, .accumulate = 7},
        {.B = 1, .T = 2, .C = 16401, .V = 5, .P = 2},
        {.B = 1, .T = 3, .C = 4, .V = 9001, .P = 3, .spread = 30},
        {.B = 2, .T = 8, .C = 5, .V = 67, .P = 8, .micro_batches = 3, .ignored = true},
    };
    for (size_t o = 0; o < sizeof row_ops / sizeof *row_ops; o++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check(row_ops[o], &sizes[i]);
}

static const struct {
    tdm_dtype type, gradient;
} types[] = {{TDM_BF16, TDM_BF16}, {TDM_F16, TDM_F16}, {TDM_BF16, TDM_F32}};

static void products_of_16_bits_equal_plain_ones(void **state)
{
    (void)state;
    static const tdmi_op ops[] = {TDMI_OP_LINEAR, TDMI_OP_LINEAR_BACKWARD_INPUT, TDMI_OP_LINEAR_BACKWARD_WEIGHT,
                                   TDMI_OP_LINEAR_GELU, TDMI_OP_LINEAR_BACKWARD_INPUT_GELU};
    static const case_sizes sizes[] = {
        {.B = 1, .T = 1, .I = 1, .O = 1},
        {.B = 1, .T = 3, .I = 33, .O = 17, .no_bias = true},
        {.B = 3, .T = 5, .I = 20, .O = 70, .accumulate = 1},
        {.B = 2, .T = 31, .I = 100, .O = 10, .accumulate = 2},
        {.B = 1, .T = 20, .I = 33, .O = 530, .accumulate = 3},
    };
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                case_sizes s = sizes[i];
                s.type = types[t].type, s.gradient = types[t].gradient;
                check(ops[o], &s);
            }
}

static void rows_of_16_bits_equal_plain_ones(void **state)
{
    (void)state;
    static const case_sizes sizes[] = {
        {.B = 1, .T = 1, .C = 1, .H = 1, .V = 1, .P = 1},
        {.B = 2, .T = 9, .C = 33, .H = 3, .V = 65, .P = 11, .accumulate = 1},
        {.B = 3, .T = 5, .C = 130, .H = 2, .V = 1001, .P = 5, .accumulate = 6, .spread = 9},
        {.B = 2, .T = 37, .C = 256, .H = 4, .V = 256, .P = 64, .accumulate = 7, .no_positions = true},
    };
    static const tdmi_op more[] = {TDMI_OP_CAST, TDMI_OP_ATTENTION, TDMI_OP_ATTENTION_BACKWARD};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            case_sizes s = sizes[i];
            s.type = types[t].type, s.gradient = types[t].gradient;
            for (size_t o = 0; o < sizeof row_ops / sizeof *row_ops; o++)
                check(row_ops[o], &s);
            for (size_t o = 0; o < sizeof more / sizeof *more; o++)
                check(more[o], &s);
        }
}

static void attention_equals_the_plain_one(void **state)
{
    (void)state;
    static const case_sizes sizes[] = {
        {.B = 1, .T = 1, .C = 1, .H = 1},
        {.B = 2, .T = 5, .C = 6, .H = 2},
        {.B = 1, .T = 33, .C = 51, .H = 3},
        {.B = 2, .T = 64, .C = 128, .H = 2, .spread = 4},
        {.B = 1, .T = 215, .C = 80, .H = 2},
        {.B = 1, .T = 401, .C = 20, .H = 1, .spread = 8},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check(TDMI_OP_ATTENTION, &sizes[i]);
        check(TDMI_OP_ATTENTION_BACKWARD, &sizes[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_equal_plain_ones),
        cmocka_unit_test(row_kernels_equal_plain_ones),
        cmocka_unit_test(attention_equals_the_plain_one),
        cmocka_unit_test(products_of_16_bits_equal_plain_ones),
        cmocka_unit_test(rows_of_16_bits_equal_plain_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
