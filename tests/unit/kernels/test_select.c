/* test_select.c - which kernel serves a node. */
#include "cases.h"

#include "core/cpu.h"
#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void the_plain_kernel_exists_for_every_op_and_is_last(void **state)
{
    (void)state;
    for (tdmi_op op = 0; op < TDMI_OP_COUNT; op++) {
        const tdmi_kernel *const *kernels;
        const size_t count = tdmi_kernels_of(op, &kernels);
        if (op == TDMI_OP_DRAW_MASK || op >= TDMI_OP_BUCKET_START) {
            assert_int_equal(count, 0);
            continue;
        }
        assert_int_not_equal(count, 0);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(kernels[i]->op, op);
            const size_t length = strlen(tdmi_op_text(op));
            assert_int_equal(strncmp(kernels[i]->name, tdmi_op_text(op), length), 0);
            assert_int_equal(kernels[i]->name[length], '/');
        }
        assert_string_equal(strchr(kernels[count - 1]->name, '/'), "/plain");
        assert_int_equal(kernels[count - 1]->isa, TDMI_ISA_PLAIN);
        assert_null(kernels[count - 1]->supports);
    }
    const tdmi_kernel *const *kernels;
    assert_int_equal(tdmi_kernels_of(TDMI_OP_COUNT, &kernels), 0);
}

static void bind_stays_within_the_instruction_set(void **state)
{
    (void)state;
    node_case c;
    case_create(&c, TDMI_OP_GELU, &(case_sizes){.B = 1, .T = 1, .C = 16}, 1);
    for (int isa = 0; isa <= (int)tdmi_cpu_isa(); isa++) {
        tdmi_bound_kernel bound;
        assert_int_equal(tdmi_kernel_bind(&c.io, isa, &bound), TDM_OK);
        assert_true(bound.kernel->isa <= isa);
        if (isa == TDMI_ISA_PLAIN)
            assert_string_equal(bound.kernel->name, "gelu/plain");
        tdmi_kernel_unbind(&bound);
        tdmi_kernel_unbind(&bound);
    }
    case_destroy(&c);
}

static void an_op_without_kernel_is_named_with_its_shapes(void **state)
{
    (void)state;
    tdmi_kernel_io io = {.op = TDMI_OP_VERDICT, .in_count = 2, .in = {{TDM_F32, 2, {3, 4}}, {TDM_F32, -1, {0}}}};
    tdmi_bound_kernel bound;
    assert_int_equal(tdmi_kernel_bind(&io, TDMI_ISA_PLAIN, &bound), TDM_ERR_UNSUPPORTED);
    assert_string_equal(tdm_error_text(), "no kernel computes verdict of [3,4] - on plain");
}

static void the_table_says_the_instruction_set_and_every_op(void **state)
{
    (void)state;
    const char *text = tdmi_kernels_table();
    assert_int_equal(strncmp(text, "isa ", 4), 0);
    assert_int_equal(strncmp(text + 4, tdmi_isa_name(tdmi_cpu_isa()), strlen(tdmi_isa_name(tdmi_cpu_isa()))), 0);
    assert_non_null(strstr(text, "; linear="));
    assert_non_null(strstr(text, "; cross_entropy_backward="));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plain_kernel_exists_for_every_op_and_is_last),
        cmocka_unit_test(bind_stays_within_the_instruction_set),
        cmocka_unit_test(an_op_without_kernel_is_named_with_its_shapes),
        cmocka_unit_test(the_table_says_the_instruction_set_and_every_op),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
