/* test_explain.c - the text of a list, whole and cut. */
#include "coll/explain.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void a_list_reads_like_what_it_does(void **state)
{
    (void)state;
    const tdmi_call call = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 8};
    tdmi_steps steps = {0};
    char text[2048], cut[20];
    tdmi_halving_doubling.steps(&steps, &call, &(tdmi_topology){.rank = 1, .n = 2});
    size_t length = tdmi_explain(&call, "halving_doubling", "it was said", &steps, 1, 2, text, sizeof text);
    assert_string_equal(text, "allreduce of 8 float32, sum, rank 1 of 2: halving_doubling; it was said\n"
                              "     0  copy in[0..8) to out[0..8)\n"
                              "     1  send out[0..4) to rank 0, receive out[4..8) from rank 0: received op own\n"
                              "     2  send out[4..8) to rank 0, receive out[0..4) from rank 0\n"
                              "        3 steps, 0 meetings, 2 messages with 8 elements over links\n");
    assert_int_equal(length, strlen(text));
    assert_int_equal(tdmi_explain(&call, "halving_doubling", "it was said", &steps, 1, 2, cut, sizeof cut), length);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_int_equal(tdmi_explain(&call, "halving_doubling", "it was said", &steps, 1, 2, NULL, 0), length);
    tdmi_steps_clear(&steps);
    tdmi_direct.steps(&steps, &call, &(tdmi_topology){.rank = 0, .n = 2});
    tdmi_explain(&call, "direct", "", &steps, 0, 2, text, sizeof text);
    assert_non_null(strstr(text, "     0  publish\n     1  meet all ranks\n     2  reduce in[0..8) of all ranks\n"
                                 "     3    into out[0..8) of all ranks\n"));
    tdmi_steps_clear(&steps);
    tdmi_steps_exchange(&steps, 1, (tdmi_range){TDMI_BUFFER_OUT, 0, 8}, -1, (tdmi_range){.count = 0});
    steps.step[0].background = true;
    tdmi_steps_add(&steps, (tdmi_step){.kind = TDMI_STEP_AWAIT, .to = -1, .from = -1, .src = {.first = 1}});
    tdmi_explain(&call, "hierarchical", "", &steps, 0, 2, text, sizeof text);
    assert_non_null(strstr(text, "     0  in the background: send out[0..8) to rank 1\n"
                                 "     1  await the background before step 1\n"));
    tdmi_steps_free(&steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_reads_like_what_it_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
