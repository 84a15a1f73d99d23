/* test_collective.c - every operation gives the right values. */
#include "on_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *sums_ranks(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    float *data;
    void *block;
    CHECK_OK(tdm_alloc(group, 1000 * sizeof(float), &block));
    data = block;
    for (int i = 0; i < 1000; i++)
        data[i] = (float)(rank + i);
    for (int k = 0; k < 100; k++) {
        for (int i = 0; i < 1000; i++)
            data[i] = (float)(rank + i);
        CHECK_OK(tdm_allreduce(group, data, data, 1000, TDM_F32, TDM_SUM, NULL));
        for (int i = 0; i < 1000; i++) {
            CHECK(data[i] == (float)(n * i + n * (n - 1) / 2), "round %d: element %d is %g", k, i, (double)data[i]);
        }
        CHECK_OK(tdm_barrier(group, NULL));
    }
    tdm_free(group, block);
    return NULL;
}

static void allreduce_in_shared_memory_sums_over_threads_and_processes(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++)
        for (int mode = 0; mode < 2; mode++)
            ranks_run(&(ranks_spec){.n = n, .transport = "shm", .mode = mode ? RANKS_PROCESSES : RANKS_THREADS}, sums_ranks, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_in_shared_memory_sums_over_threads_and_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
