/* test_domains.c - ranks on a made-up machine of two NUMA nodes: each knows where the others are, results and sums stay what they are. */
#include "on_ranks.h"

#include "group/group.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 4, COUNT = 5000 };

static bool bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

static const char *works_across_nodes(tdm_group *none, void *arg)
{
    (void)none, (void)arg;
    const tdm_group_options options = ranks_options();
    const int rank = options.rank;
    tdm_group *group;
    CHECK_THAT(bind_to(rank % 2));
    CHECK_OK(tdm_group_create(&options, &group));
#ifdef TDMI_HAVE_HWLOC
    CHECK_THAT(group->team.topology.domain != NULL);
    for (int r = 0; r < N; r++)
        CHECK(group->team.topology.domain[r].node == r % 2, "rank %d is said to be on node %d", r, group->team.topology.domain[r].node);
#else
    CHECK_THAT(group->team.topology.domain == NULL);
#endif
    int32_t *in, *out;
    float *values;
    CHECK_OK(tdm_alloc(group, COUNT * sizeof *in, (void **)&in));
    CHECK_OK(tdm_alloc(group, N * COUNT * sizeof *out, (void **)&out));
    CHECK_OK(tdm_alloc(group, (size_t)3 << 20, (void **)&values)); /* a huge page, on a node that this machine may not have */
    for (int i = 0; i < COUNT; i++)
        in[i] = rank * COUNT + i;
    CHECK_OK(tdm_all_gather(group, in, out, COUNT, TDM_I32, NULL));
    for (int i = 0; i < N * COUNT; i++)
        CHECK(out[i] == i, "element %d is %d", i, out[i]);
    static const float terms[N] = {1e8f, 3, -1e8f, 5}; /* another order gives another sum */
    for (int i = 0; i < COUNT; i++)
        values[i] = terms[(rank + i) % N];
    CHECK_OK(tdm_allreduce(group, values, values, COUNT, TDM_F32, TDM_SUM, NULL));
    for (int i = 0; i < COUNT; i++) {
        const float left = terms[i % N] + terms[(i + 1) % N], right = terms[(i + 2) % N] + terms[(i + 3) % N];
        CHECK(values[i] == left + right, "sum %d is %g", i, (double)values[i]);
    }
    CHECK_OK(tdm_barrier(group, NULL));
    tdm_group_destroy(group);
    return NULL;
}

static void ranks_of_two_numa_nodes_know_it_and_get_the_same_results(void **state)
{
    (void)state;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || !CPU_ISSET(0, &set) || !CPU_ISSET(1, &set))
        skip();
    ranks_run(&(ranks_spec){.n = N, .transport = "shm", .mode = RANKS_PROCESSES, .no_group = true}, works_across_nodes, NULL);
}

int main(void)
{
    setenv("HWLOC_SYNTHETIC", "numa:2 l3:1 core:1 pu:1", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_of_two_numa_nodes_know_it_and_get_the_same_results)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
