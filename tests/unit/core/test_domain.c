/* test_domain.c - CPUs of made-up machines: which NUMA node and cache they belong to. */
#include "core/domain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static tdmi_domain of(uint64_t cpus)
{
    return tdmi_domain_of(&(tdmi_cpus){{cpus}});
}

static void check(uint64_t cpus, int node, int cache)
{
#ifndef TDMI_HAVE_HWLOC
    node = cache = -1;
#endif
    const tdmi_domain domain = of(cpus);
    assert_int_equal(domain.node, node);
    assert_int_equal(domain.cache, cache);
}

static void cpus_have_a_node_and_a_cache_or_several(void **state)
{
    (void)state;
    setenv("HWLOC_SYNTHETIC", "numa:2 l3:2 core:2 pu:1", 1); /* {01}{23} {45}{67} */
    check(1u << 0, 0, 0);
    check(1u << 3, 0, 2);
    check(1u << 4, 1, 4);
    check(1u << 0 | 1u << 1, 0, 0);
    check(1u << 6 | 1u << 7, 1, 6);
    check(1u << 0 | 1u << 2, 0, -1);
    check(1u << 3 | 1u << 4, -1, -1);
    check(1u << 20, -1, -1);
    check(0, -1, -1);
    setenv("HWLOC_SYNTHETIC", "numa:2 l2:2 pu:2", 1); /* no third level */
    check(1u << 5, 1, 4);
}

static void this_machine_gives_some_answer(void **state)
{
    (void)state;
    unsetenv("HWLOC_SYNTHETIC");
    const tdmi_cpus own = tdmi_cpus_own();
    const tdmi_domain domain = tdmi_domain_of(&own), again = tdmi_domain_of(&own);
    assert_true(domain.node >= -1 && domain.cache >= -1);
    assert_true(domain.node == again.node && domain.cache == again.cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpus_have_a_node_and_a_cache_or_several),
        cmocka_unit_test(this_machine_gives_some_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
