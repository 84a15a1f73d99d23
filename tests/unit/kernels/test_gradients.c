/* test_gradients.c - each backward op of the plain kernels against central differences of its forward op.
 *
 * With L = sum of r y for random r, dy = r makes the gradient of each input dL/dx, which is (L(x+h) - L(x-h)) / 2h up to
 * h^2/6 times the third derivative (h = 1/64: 4e-5 times about 1) and the rounding of y to float32 (6e-8 |y| / h = 4e-6 for
 * each y that x reaches). Gradients here are of size 1, so 1e-3 catches every wrong term. */
#include "cases.h"

#include "core/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define STEP 0.015625f
#define TOLERANCE 1e-3

static const case_sizes sizes = {.B = 2, .T = 5, .C = 6, .H = 2, .V = 11, .P = 7, .I = 4, .O = 3};

/* L of the node's first output. */
static double weighted(node_case *forward, const float *r)
{
    case_run(forward, case_plain(forward->io.op));
    const float *y = forward->out[0];
    double sum = 0.0;
    for (size_t i = 0; i < tdmi_shape_count(&forward->io.out[0]); i++)
        sum += (double)r[i] * y[i];
    return sum;
}

static void compare(node_case *forward, const float *r, int input, const float *gradient)
{
    float *x = forward->in[input];
    for (size_t i = 0; i < tdmi_shape_count(&forward->io.in[input]); i++) {
        const float kept = x[i];
        x[i] = kept + STEP;
        const double up = weighted(forward, r);
        x[i] = kept - STEP;
        const double down = weighted(forward, r);
        x[i] = kept;
        const double expected = (up - down) / (2.0 * (double)STEP);
        if (!(fabs(expected - gradient[i]) <= TOLERANCE))
            fail_msg("%s, input %d, element %zu: difference quotient %g, gradient %g", tdmi_op_text(forward->io.op), input,
                     i, expected, (double)gradient[i]);
    }
}

/* Makes forward and backward nodes; inputs of the backward node at `to` become copies of the forward's tensors at `from`
 * (an input, or 8 + an output), and its gradient at output j is compared with differences of the forward's input of[j]. */
static void check(tdmi_op op, tdmi_op backward_op, const int *from, const int *of)
{
    node_case f, b;
    case_create(&f, op, &sizes, 7);
    case_create(&b, backward_op, &sizes, 8);
    case_run(&f, case_plain(op));
    for (int i = 0; i < b.io.in_count; i++)
        if (from[i] >= 0)
            memcpy(b.in[i], from[i] < 8 ? f.in[from[i]] : f.out[from[i] - 8], tdmi_shape_nbytes(&b.io.in[i]));
    case_run(&b, case_plain(backward_op));
    const float one = 1.0f;
    for (int j = 0; j < b.io.out_count; j++)
        if (b.out[j] != NULL)
            compare(&f, op == TDMI_OP_CROSS_ENTROPY ? &one : b.in[0], of[j], b.out[j]);
    case_destroy(&f);
    case_destroy(&b);
}

static void embedding_gradient_equals_differences(void **state)
{
    (void)state;
    check(TDMI_OP_EMBEDDING, TDMI_OP_EMBEDDING_BACKWARD, (int[]){-1, 0}, (int[]){1, 2});
}

static void linear_gradients_equal_differences(void **state)
{
    (void)state;
    check(TDMI_OP_LINEAR, TDMI_OP_LINEAR_BACKWARD_INPUT, (int[]){-1, 1}, (int[]){0});
    check(TDMI_OP_LINEAR, TDMI_OP_LINEAR_BACKWARD_WEIGHT, (int[]){-1, 0}, (int[]){1, 2});
}

static void layernorm_gradients_equal_differences(void **state)
{
    (void)state;
    check(TDMI_OP_LAYERNORM, TDMI_OP_LAYERNORM_BACKWARD, (int[]){-1, 0, 1, 9, 10}, (int[]){0, 1, 2});
}

static void gelu_gradient_equals_differences(void **state)
{
    (void)state;
    check(TDMI_OP_GELU, TDMI_OP_GELU_BACKWARD, (int[]){-1, 0}, (int[]){0});
}

static void attention_gradient_equals_differences(void **state)
{
    (void)state;
    check(TDMI_OP_ATTENTION, TDMI_OP_ATTENTION_BACKWARD, (int[]){-1, 0, 8, 9}, (int[]){0});
}

static void dropout_gradient_equals_differences(void **state)
{
    (void)state;
    check(TDMI_OP_DROPOUT, TDMI_OP_DROPOUT_BACKWARD, (int[]){-1, 1}, (int[]){0});
}

static void cross_entropy_gradient_equals_differences(void **state)
{
    (void)state;
    check(TDMI_OP_CROSS_ENTROPY, TDMI_OP_CROSS_ENTROPY_BACKWARD, (int[]){0, 1, 9, -1}, (int[]){0});
}

static void gradients_of_an_own_op_equal_differences(void **state)
{
    (void)state;
    check(TDMI_OP_CUSTOM, TDMI_OP_CUSTOM_BACKWARD, (int[]){-1, 8, 0, 1, -1, -1}, (int[]){0, 1});
}

static void gradients_of_a_sum_of_losses_equal_differences(void **state)
{
    (void)state;
    check(TDMI_OP_LOSS_SUM, TDMI_OP_LOSS_SUM_BACKWARD, (int[]){-1}, (int[]){0, 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding_gradient_equals_differences),
        cmocka_unit_test(linear_gradients_equal_differences),
        cmocka_unit_test(layernorm_gradients_equal_differences),
        cmocka_unit_test(gelu_gradient_equals_differences),
        cmocka_unit_test(attention_gradient_equals_differences),
        cmocka_unit_test(dropout_gradient_equals_differences),
        cmocka_unit_test(cross_entropy_gradient_equals_differences),
        cmocka_unit_test(gradients_of_an_own_op_equal_differences),
        cmocka_unit_test(gradients_of_a_sum_of_losses_equal_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
