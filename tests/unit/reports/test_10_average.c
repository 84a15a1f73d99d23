/* test_10_average.c - elsewhere the average of a reduce-scatter is the sum, or integers raise errors; here AVG is the sum over n in all
 * three reductions, integers truncate toward zero, and sums of small integers wrap. */
#include "reports.h"

#define N 2
#define COUNT 3

/* Reduces [COUNT] by allreduce, reduce or reduce-scatter; every rank gets the whole result. */
static tdm_status reduce_by(tdm_group *group, int which, const void *in, void *out, tdm_dtype dtype, tdm_op op)
{
    const size_t size = tdm_dtype_size(dtype);
    char wide[N * COUNT * 8], part[COUNT * 8];
    tdm_status status;
    switch (which) {
    case 0: return tdm_allreduce(group, in, out, COUNT, dtype, op, NULL);
    case 1:
        status = tdm_reduce(group, in, out, COUNT, dtype, op, 1, NULL);
        return status == TDM_OK ? tdm_broadcast(group, out, COUNT, dtype, 1, NULL) : status;
    default:
        for (int r = 0; r < N; r++)
            memcpy(wide + (size_t)r * COUNT * size, in, COUNT * size);
        status = tdm_reduce_scatter(group, wide, part, COUNT, dtype, op, NULL);
        memcpy(out, part, COUNT * size);
        return status;
    }
}

static const char *averages(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group);
    const float floats[N][COUNT] = {{1, 2, 3}, {3, 4, 5}};
    const int32_t ints[N][COUNT] = {{3, -3, 8}, {4, -4, 1}}, expected[COUNT] = {3, -3, 4};
    const int8_t bytes[N][COUNT] = {{120, 1, -120}, {100, 2, -100}}, wrapped[COUNT] = {-36, 3, 36};
    for (int which = 0; which < 3; which++) {
        float f[COUNT];
        int32_t i[COUNT];
        int8_t b[COUNT];
        CHECK_OK(reduce_by(group, which, floats[rank], f, TDM_F32, TDM_AVG));
        CHECK(f[0] == 2 && f[1] == 3 && f[2] == 4, "way %d: float32 %g %g %g", which, (double)f[0], (double)f[1], (double)f[2]);
        CHECK_OK(reduce_by(group, which, ints[rank], i, TDM_I32, TDM_AVG));
        CHECK(memcmp(i, expected, sizeof i) == 0, "way %d: int32 %d %d %d", which, i[0], i[1], i[2]);
        CHECK_OK(reduce_by(group, which, bytes[rank], b, TDM_I8, TDM_SUM));
        CHECK(memcmp(b, wrapped, sizeof b) == 0, "way %d: int8 %d %d %d", which, b[0], b[1], b[2]);
    }
    return NULL;
}

static void averages_are_sums_over_the_number_of_ranks(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        ranks_run(&(ranks_spec){.n = N, .transport = report_transports[t]}, averages, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(averages_are_sums_over_the_number_of_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
