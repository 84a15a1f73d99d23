/* mpi_huge.c - one of two ranks that mpirun starts: counts past 2^31 over engine mpi, whose counts are ints. Needs about 9 GB: run
 * only with -Dhuge_tests=true, alone. */
#include "mpi_check.h"

#include <stdint.h>

static int rank;

static int8_t value(size_t i, int of)
{
    return (int8_t)((i * 31 + (size_t)of * 3) % 50);
}

static void fill(int8_t *data, size_t count)
{
    for (size_t i = 0; i < count; i++)
        data[i] = value(i, rank);
}

/* At the ends, around 2^30 and 2^31, and here and there. */
static bool is_looked_at(size_t i, size_t count)
{
    const size_t half = (size_t)1 << 30, whole = (size_t)1 << 31;
    return i < 3 || i + 3 >= count || i - half + 3 < 6 || i - whole + 3 < 6 || i % 65537 == 0;
}

int main(void)
{
    const size_t count = ((size_t)1 << 31) + 5;
    tdm_group *group;
    OK(tdm_group_create(NULL, &group));
    rank = tdm_group_rank(group);
    CHECK(tdm_group_size(group) == 2, "needs 2 ranks");
    int8_t *in = malloc(count), *out = malloc(count);
    CHECK(in != NULL && out != NULL, "no memory");
    fill(in, count);
    OK(tdm_allreduce(group, in, out, count, TDM_I8, TDM_SUM, NULL));
    for (size_t i = 0; i < count; i++)
        if (is_looked_at(i, count))
            CHECK(out[i] == (int8_t)(value(i, 0) + value(i, 1)), "sum %zu is %d", i, out[i]);
    OK(tdm_broadcast(group, in, count, TDM_I8, 1, NULL));
    for (size_t i = 0; i < count; i++)
        if (is_looked_at(i, count))
            CHECK(in[i] == value(i, 1), "broadcast element %zu is %d", i, in[i]);
    fill(in, count);
    if (rank == 0)
        OK(tdm_send(group, in, count, TDM_I8, 1, 0, NULL));
    else
        OK(tdm_recv(group, out, count, TDM_I8, 0, 0, NULL, NULL));
    for (size_t i = 0; i < count && rank == 1; i++)
        if (is_looked_at(i, count))
            CHECK(out[i] == value(i, 0), "byte %zu of the message is %d", i, out[i]);
    free(in);
    free(out);
    tdm_group_destroy(group);
    printf("rank %d: all right\n", rank);
    return 0;
}
