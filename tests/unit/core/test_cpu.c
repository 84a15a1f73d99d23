/* test_cpu.c - who has to share a core. */
#include "core/cpu.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const tdmi_cpus cpu0 = {{1}}, cpu1 = {{2}}, both = {{3}}, far = {{0, 8}}, unknown = {{0}};

static void ranks_bound_to_cores_of_their_own_are_not_crowded(void **state)
{
    (void)state;
    const tdmi_cpus *own[3] = {&cpu0, &cpu1, &far};
    assert_false(tdmi_cpus_crowded(own, 3, INT_MAX));
    assert_false(tdmi_cpus_crowded(own, 3, 3));
    const tdmi_cpus *loose[2] = {&both, &both};
    assert_false(tdmi_cpus_crowded(loose, 2, INT_MAX));
}

static void ranks_with_fewer_cores_than_ranks_are(void **state)
{
    (void)state;
    const tdmi_cpus *same[3] = {&cpu0, &far, &cpu0}, *many[3] = {&both, &both, &both}, *inner[3] = {&cpu1, &both, &cpu0};
    assert_true(tdmi_cpus_crowded(same, 3, INT_MAX));
    assert_true(tdmi_cpus_crowded(many, 3, INT_MAX));
    assert_true(tdmi_cpus_crowded(inner, 3, INT_MAX));
}

static void a_quota_below_the_ranks_crowds_them(void **state)
{
    (void)state;
    const tdmi_cpus *own[2] = {&cpu0, &cpu1};
    assert_true(tdmi_cpus_crowded(own, 2, 1));
}

static void ranks_whose_cores_are_not_known_are_left_to_spin(void **state)
{
    (void)state;
    const tdmi_cpus *set[2] = {&unknown, &cpu1};
    assert_false(tdmi_cpus_crowded(set, 2, INT_MAX));
}

static void a_thread_knows_its_cores(void **state)
{
    (void)state;
    const tdmi_cpus own = tdmi_cpus_own(), *set[1] = {&own};
    assert_false(tdmi_cpus_crowded(set, 1, INT_MAX));
}

static void the_own_cache_has_a_size_that_caches_have(void **state)
{
    (void)state;
    const size_t nbytes = tdmi_cpu_own_cache();
    assert_true(nbytes == 0 || (nbytes >= 64 << 10 && nbytes <= 1 << 28));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_bound_to_cores_of_their_own_are_not_crowded),
        cmocka_unit_test(ranks_with_fewer_cores_than_ranks_are),
        cmocka_unit_test(a_quota_below_the_ranks_crowds_them),
        cmocka_unit_test(ranks_whose_cores_are_not_known_are_left_to_spin),
        cmocka_unit_test(a_thread_knows_its_cores),
        cmocka_unit_test(the_own_cache_has_a_size_that_caches_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
