/* test_baselines.c - gather_to_one and parameter_server give the same bits as everything else, and their traffic meets at rank 0. */
#include "check.h"

#include "coll/algorithm.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const tdmi_algorithm *const baselines[] = {&tdmi_gather_to_one, &tdmi_parameter_server};

static void allreduce_gives_the_canonical_bits_for_any_ranks_and_types(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        check_sizes(baselines[i], TDMI_COLL_ALLREDUCE, 33, false);
        check_types(baselines[i], TDMI_COLL_ALLREDUCE, false);
    }
}

static void every_other_rank_sends_its_data_to_rank_0(void **state)
{
    (void)state;
    const tdmi_call call = {.coll = TDMI_COLL_ALLREDUCE, .dtype = TDM_F32, .op = TDM_SUM, .root = -1, .count = 5};
    tdmi_steps list = {0};
    for (int i = 0; i < 10; i++) {
        const int rank = i % 5 + 1;
        tdmi_steps_clear(&list);
        baselines[i / 5]->steps(&list, &call, &(tdmi_topology){.rank = rank, .n = 6});
        assert_int_equal(list.step[0].kind, TDMI_STEP_EXCHANGE);
        assert_int_equal(list.step[0].to, 0);
        assert_int_equal(list.step[0].src.count, 5);
    }
    tdmi_steps_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_gives_the_canonical_bits_for_any_ranks_and_types),
        cmocka_unit_test(every_other_rank_sends_its_data_to_rank_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
