/* test_placement.c - threads and CPUs for ranks. */
#include "launch/placement.h"

#include "core/cpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void every_allowed_cpu_goes_to_exactly_one_rank(void **state)
{
    (void)state;
    cpu_set_t allowed, seen;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int ranks = 2; ranks <= CPU_COUNT(&allowed); ranks++) {
        tdmi_placement placement;
        assert_int_equal(tdmi_placement_choose(ranks, NULL, &placement), TDM_OK);
        assert_non_null(placement.sets);
        CPU_ZERO(&seen);
        int total = 0;
        for (int r = 0; r < ranks; r++) {
            assert_true(CPU_COUNT(&placement.sets[r]) >= 1);
            total += CPU_COUNT(&placement.sets[r]);
            CPU_OR(&seen, &seen, &placement.sets[r]);
        }
        assert_true(CPU_EQUAL(&seen, &allowed));
        assert_int_equal(total, CPU_COUNT(&allowed)); /* disjoint */
        tdmi_placement_free(&placement);
    }
}

static void more_ranks_than_cpus_are_not_bound_and_the_note_says_so(void **state)
{
    (void)state;
    cpu_set_t allowed;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    tdmi_placement placement;
    assert_int_equal(tdmi_placement_choose(CPU_COUNT(&allowed) + 1, NULL, &placement), TDM_OK);
    assert_null(placement.sets);
    assert_int_equal(placement.threads, 1);
    assert_non_null(strstr(placement.note, "ranks not bound"));
    tdmi_placement_free(&placement);
}

static void one_rank_gets_all_cpus_and_no_binding(void **state)
{
    (void)state;
    tdmi_placement placement;
    assert_int_equal(tdmi_placement_choose(1, NULL, &placement), TDM_OK);
    assert_null(placement.sets);
    assert_int_equal(placement.threads, tdmi_cpu_usable());
    tdmi_placement_free(&placement);
}

static void a_thread_count_of_the_user_is_said_to_be_kept(void **state)
{
    (void)state;
    tdmi_placement placement;
    assert_int_equal(tdmi_placement_choose(2, "4", &placement), TDM_OK);
    assert_non_null(strstr(placement.note, "OMP_NUM_THREADS=4 kept"));
    tdmi_placement_free(&placement);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allowed_cpu_goes_to_exactly_one_rank),
        cmocka_unit_test(more_ranks_than_cpus_are_not_bound_and_the_note_says_so),
        cmocka_unit_test(one_rank_gets_all_cpus_and_no_binding),
        cmocka_unit_test(a_thread_count_of_the_user_is_said_to_be_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
