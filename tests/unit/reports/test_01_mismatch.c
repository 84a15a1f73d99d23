/* test_01_mismatch.c - ranks make different calls: elsewhere a hang, a wrong tail or an abort; here one error on all ranks, within the
 * deadline, that names both sides. Operation, dtype, count, root, reduction and order; groups: group/test_elsewhere.c. */
#include "reports.h"

static float in[2 * 512000], outs[8][4 * 512000]; /* ranks may be threads; nothing is read */

typedef struct one_call {
    enum { ALLREDUCE, REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, GATHER, SCATTER, ALLTOALL, BARRIER, ALL_GATHERV } op;
    size_t count;
    tdm_dtype dtype;
    tdm_op reduction;
    int root;
} one_call;

static tdm_status make(tdm_group *group, const one_call *c)
{
    const size_t counts[3] = {c->count, 1, 1};
    float *out = outs[tdm_group_rank(group)];
    switch (c->op) {
    case ALLREDUCE: return tdm_allreduce(group, in, out, c->count, c->dtype, c->reduction, NULL);
    case REDUCE: return tdm_reduce(group, in, out, c->count, c->dtype, c->reduction, c->root, NULL);
    case REDUCE_SCATTER: return tdm_reduce_scatter(group, in, out, c->count, c->dtype, c->reduction, NULL);
    case ALL_GATHER: return tdm_all_gather(group, in, out, c->count, c->dtype, NULL);
    case BROADCAST: return tdm_broadcast(group, out, c->count, c->dtype, c->root, NULL);
    case GATHER: return tdm_gather(group, in, out, c->count, c->dtype, c->root, NULL);
    case SCATTER: return tdm_scatter(group, in, out, c->count, c->dtype, c->root, NULL);
    case ALLTOALL: return tdm_alltoall(group, in, out, c->count, c->dtype, NULL);
    case ALL_GATHERV: return tdm_all_gatherv(group, in, out, counts, c->dtype, NULL);
    case BARRIER: break;
    }
    return tdm_barrier(group, NULL);
}

typedef struct two_sides {
    one_call side[2]; /* of rank 0, of the last rank; those between are with rank 0 */
    const char *text[2];
} two_sides;

static const char *differs(tdm_group *group, void *arg)
{
    const two_sides *sides = arg;
    const bool other = tdm_group_rank(group) == tdm_group_size(group) - 1;
    const double start = now_s();
    tdm_status status = make(group, &sides->side[other]);
    if (status == TDM_OK) /* who only gives waits for nobody, and hears of it in its next call */
        status = tdm_barrier(group, NULL);
    CHECK(status == TDM_ERR_MISMATCH, "%s: %s", tdm_status_name(status), tdm_error_text());
    for (int i = 0; i < 2; i++)
        CHECK(strstr(tdm_error_text(), sides->text[i]) != NULL, "\"%s\" lacks \"%s\"", tdm_error_text(), sides->text[i]);
    CHECK(now_s() - start < 5, "it took %g s", now_s() - start);
    return NULL;
}

static const two_sides cases[] = {
    {{{ALLREDUCE, 256000, TDM_F32, TDM_SUM, 0}, {ALLREDUCE, 512000, TDM_F32, TDM_SUM, 0}}, {"allreduce of 256000 float32 (sum)", "allreduce of 512000"}},
    {{{ALLREDUCE, 2560, TDM_F32, TDM_SUM, 0}, {ALLREDUCE, 5120, TDM_F32, TDM_SUM, 0}}, {"of 2560", "of 5120"}},
    {{{ALLREDUCE, 7, TDM_F32, TDM_SUM, 0}, {ALLREDUCE, 8, TDM_F32, TDM_SUM, 0}}, {"of 7", "of 8"}},
    {{{ALLREDUCE, 0, TDM_F32, TDM_SUM, 0}, {ALLREDUCE, 1, TDM_F32, TDM_SUM, 0}}, {"of 0", "of 1"}},
    {{{BROADCAST, 2560, TDM_F32, TDM_SUM, 0}, {BROADCAST, 5120, TDM_F32, TDM_SUM, 0}}, {"broadcast of 2560", "broadcast of 5120"}},
    {{{REDUCE_SCATTER, 2560, TDM_F32, TDM_SUM, 0}, {REDUCE_SCATTER, 5120, TDM_F32, TDM_SUM, 0}}, {"of 2560", "of 5120"}},
    {{{REDUCE, 7, TDM_F32, TDM_SUM, 1}, {REDUCE, 8, TDM_F32, TDM_SUM, 1}}, {"reduce of 7", "reduce of 8"}},
    {{{ALL_GATHER, 7, TDM_F32, TDM_SUM, 0}, {ALL_GATHER, 8, TDM_F32, TDM_SUM, 0}}, {"all_gather of 7", "all_gather of 8"}},
    {{{GATHER, 7, TDM_F32, TDM_SUM, 0}, {GATHER, 8, TDM_F32, TDM_SUM, 0}}, {"gather", "7"}},
    {{{SCATTER, 7, TDM_F32, TDM_SUM, 0}, {SCATTER, 8, TDM_F32, TDM_SUM, 0}}, {"scatter", "7"}},
    {{{ALLTOALL, 7, TDM_F32, TDM_SUM, 0}, {ALLTOALL, 8, TDM_F32, TDM_SUM, 0}}, {"alltoall", "7"}},
    {{{ALL_GATHERV, 7, TDM_F32, TDM_SUM, 0}, {ALL_GATHERV, 8, TDM_F32, TDM_SUM, 0}}, {"all_gatherv of ", "but rank "}},
    {{{ALLREDUCE, 10, TDM_F32, TDM_SUM, 0}, {ALLREDUCE, 10, TDM_I32, TDM_SUM, 0}}, {"float32", "int32"}},
    {{{ALLREDUCE, 10, TDM_F32, TDM_SUM, 0}, {ALLREDUCE, 10, TDM_F32, TDM_MAX, 0}}, {"(sum)", "(max)"}},
    {{{BROADCAST, 10, TDM_F32, TDM_SUM, 0}, {BROADCAST, 10, TDM_F32, TDM_SUM, 1}}, {"rank 0", "rank 1"}},
    {{{REDUCE, 10, TDM_F32, TDM_SUM, 0}, {REDUCE, 10, TDM_F32, TDM_SUM, 1}}, {"reduce of 10", "rank 1"}},
    {{{GATHER, 10, TDM_F32, TDM_SUM, 0}, {GATHER, 10, TDM_F32, TDM_SUM, 1}}, {"gather", "rank 1"}},
    {{{SCATTER, 10, TDM_F32, TDM_SUM, 0}, {SCATTER, 10, TDM_F32, TDM_SUM, 1}}, {"scatter", "rank 1"}},
    {{{ALLREDUCE, 10, TDM_F32, TDM_SUM, 0}, {BROADCAST, 10, TDM_F32, TDM_SUM, 0}}, {"allreduce", "broadcast"}},
    {{{BARRIER, 0, TDM_F32, TDM_SUM, 0}, {ALLTOALL, 4, TDM_F32, TDM_SUM, 0}}, {"barrier", "alltoall"}},
};

static void different_calls_end_with_an_error_that_names_both(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            for (int n = 2; n <= 3; n++)
                ranks_run(&(ranks_spec){.n = n, .transport = report_transports[t]}, differs, (void *)(uintptr_t)&cases[i]);
}

static const char *makes_two_calls_in_another_order(tdm_group *group, void *arg)
{
    (void)arg;
    const one_call calls[2] = {{ALLREDUCE, 10, TDM_F32, TDM_SUM, 0}, {BROADCAST, 10, TDM_F32, TDM_SUM, 0}};
    const int rank = tdm_group_rank(group);
    tdm_status status = TDM_OK;
    for (int i = 0; i < 2 && status == TDM_OK; i++)
        status = make(group, &calls[rank == 0 ? i : 1 - i]);
    CHECK(status == TDM_ERR_MISMATCH, "%s: %s", tdm_status_name(status), tdm_error_text());
    CHECK(strstr(tdm_error_text(), "rank 0 makes allreduce of 10") != NULL && strstr(tdm_error_text(), "rank 1 makes broadcast of 10") != NULL,
          "text: %s", tdm_error_text());
    return NULL;
}

static void another_order_is_an_error_too(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        ranks_run(&(ranks_spec){.n = 2, .transport = report_transports[t]}, makes_two_calls_in_another_order, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(different_calls_end_with_an_error_that_names_both),
        cmocka_unit_test(another_order_is_an_error_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
