/* test_pattern.c - the checker agrees with the reduction and finds every single wrong element. */
#include "measure/pattern.h"

#include "coll/reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { COUNT = 9001, RANKS = 9 };

static unsigned char in[RANKS][COUNT * 8], out[COUNT * 8];

static void it_agrees_with_the_reduction_of_every_type(void **state)
{
    (void)state;
    const void *inputs[RANKS];
    for (int dtype = 0; dtype < TDM_DTYPE_COUNT; dtype++)
        for (int op = 0; op < TDM_OP_COUNT; op++)
            for (int n = 1; n <= RANKS; n++) {
                if (tdmi_op_check((tdm_dtype)dtype, (tdm_op)op, "test", "native") != TDM_OK)
                    continue;
                for (int rank = 0; rank < n; rank++) {
                    tdmi_pattern_fill((tdm_dtype)dtype, (tdm_op)op, rank, 77, in[rank], COUNT);
                    inputs[rank] = in[rank];
                }
                tdmi_reduce_tree((tdm_dtype)dtype, (tdm_op)op, inputs, n, (void *const[]){out}, 1, COUNT, false);
                assert_int_equal(tdmi_pattern_wrong_result((tdm_dtype)dtype, (tdm_op)op, n, 77, out, COUNT), 0);
            }
}

static void one_wrong_element_counts_one(void **state)
{
    (void)state;
    static const size_t places[] = {0, 4092, 4093, 4500, COUNT - 1};
    for (int dtype = 0; dtype < TDM_DTYPE_COUNT; dtype++)
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            tdmi_pattern_fill((tdm_dtype)dtype, TDM_SUM, 0, 0, in[0], COUNT);
            assert_int_equal(tdmi_pattern_wrong_copy((tdm_dtype)dtype, TDM_SUM, 0, 0, in[0], COUNT), 0);
            assert_int_equal(tdmi_pattern_wrong_result((tdm_dtype)dtype, TDM_SUM, 1, 0, in[0], COUNT), 0);
            in[0][places[i] * tdm_dtype_size((tdm_dtype)dtype)] ^= 1;
            assert_int_equal(tdmi_pattern_wrong_copy((tdm_dtype)dtype, TDM_SUM, 0, 0, in[0], COUNT), 1);
            assert_int_equal(tdmi_pattern_wrong_result((tdm_dtype)dtype, TDM_SUM, 1, 0, in[0], COUNT), 1);
        }
}

/* Data of another rank, of another place or of fewer ranks is not taken for the right one. */
static void what_is_misplaced_is_wrong(void **state)
{
    (void)state;
    tdmi_pattern_fill(TDM_F32, TDM_SUM, 1, 0, in[0], COUNT);
    assert_true(tdmi_pattern_wrong_copy(TDM_F32, TDM_SUM, 2, 0, in[0], COUNT) > COUNT / 2);
    for (size_t shift = 1; shift <= 4096; shift *= 2)
        assert_true(tdmi_pattern_wrong_copy(TDM_F32, TDM_SUM, 1, shift, in[0], COUNT) > COUNT / 2);
    for (int n = 2; n < RANKS; n++)
        assert_true(tdmi_pattern_wrong_result(TDM_F32, TDM_SUM, n, 0, in[0], COUNT) > COUNT / 2);
    tdmi_pattern_fill(TDM_F32, TDM_SUM, 1, 500, in[0], COUNT);
    assert_int_equal(tdmi_pattern_wrong_copy(TDM_F32, TDM_SUM, 1, 1500, in[0] + 4000, COUNT - 1000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_agrees_with_the_reduction_of_every_type),
        cmocka_unit_test(one_wrong_element_counts_one),
        cmocka_unit_test(what_is_misplaced_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
