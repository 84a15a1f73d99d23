/* test_12_empty.c - elsewhere an empty tensor divides by zero and a group of one is refused; here a count of 0 is a call like any other
 * that moves nothing, parts may be empty, and a group of one copies. */
#include "reports.h"

static const char *makes_empty_calls(tdm_group *group, void *arg)
{
    (void)arg;
    float value = 7;
    const size_t none[3] = {0, 0, 0};
    for (int k = 0; k < 2; k++) { /* with and without buffers */
        float *p = k == 0 ? &value : NULL;
        CHECK_OK(tdm_allreduce(group, p, p, 0, TDM_F32, TDM_AVG, NULL));
        CHECK_OK(tdm_reduce(group, p, p, 0, TDM_F32, TDM_SUM, 0, NULL));
        CHECK_OK(tdm_reduce_scatter(group, p, p, 0, TDM_F32, TDM_SUM, NULL));
        CHECK_OK(tdm_all_gather(group, p, p, 0, TDM_F32, NULL));
        CHECK_OK(tdm_broadcast(group, p, 0, TDM_F32, 0, NULL));
        CHECK_OK(tdm_gather(group, p, p, 0, TDM_F32, 0, NULL));
        CHECK_OK(tdm_scatter(group, p, p, 0, TDM_F32, 0, NULL));
        CHECK_OK(tdm_alltoall(group, p, p, 0, TDM_F32, NULL));
        CHECK_OK(tdm_all_gatherv(group, p, p, none, TDM_F32, NULL));
        CHECK_OK(tdm_reduce_scatterv(group, p, p, none, TDM_F32, TDM_SUM, NULL));
        CHECK_OK(tdm_gatherv(group, p, 0, p, none, TDM_F32, 0, NULL));
        CHECK_OK(tdm_scatterv(group, p, none, p, 0, TDM_F32, 0, NULL));
        CHECK_OK(tdm_alltoallv(group, p, none, p, none, TDM_F32, NULL));
    }
    CHECK(value == 7, "something was written");
    return NULL;
}

static void empty_calls_are_calls(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int n = 1; n <= 3; n++)
            ranks_run(&(ranks_spec){.n = n, .transport = report_transports[t]}, makes_empty_calls, NULL);
}

static const char *comes_late_to_an_empty_call(tdm_group *group, void *arg)
{
    (void)arg;
    if (tdm_group_rank(group) == 1)
        sleep_s(0.5);
    const tdm_status status = tdm_allreduce(group, NULL, NULL, 0, TDM_F32, TDM_SUM, NULL);
    CHECK(status == TDM_ERR_TIMEOUT, "%s: an empty call does not pair up", tdm_status_name(status));
    return NULL;
}

static void empty_calls_pair_up(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        ranks_run(&(ranks_spec){.n = 2, .transport = report_transports[t], .timeout_s = 0.2}, comes_late_to_an_empty_call, NULL);
}

static const char *gathers_parts_of_which_some_are_empty(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group);
    const size_t counts[4] = {0, 5, 0, 3};
    int32_t in[5], out[8] = {0};
    for (int i = 0; i < 5; i++)
        in[i] = 10 * rank + i;
    CHECK_OK(tdm_all_gatherv(group, in, out, counts, TDM_I32, NULL));
    for (int i = 0; i < 8; i++)
        CHECK(out[i] == (i < 5 ? 10 + i : 30 + i - 5), "element %d is %d", i, out[i]);
    memset(out, 0, sizeof out);
    CHECK_OK(tdm_gatherv(group, in, counts[rank], out, counts, TDM_I32, 2, NULL));
    for (int i = 0; i < 8 && rank == 2; i++)
        CHECK(out[i] == (i < 5 ? 10 + i : 30 + i - 5), "gathered: element %d is %d", i, out[i]);
    return NULL;
}

static void empty_parts_leave_no_gap(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        ranks_run(&(ranks_spec){.n = 4, .transport = report_transports[t]}, gathers_parts_of_which_some_are_empty, NULL);
}

static const char *is_alone(tdm_group *group, void *arg)
{
    (void)arg;
    const float in[3] = {1.5f, -2, 0};
    for (tdm_op op = TDM_SUM; op <= TDM_PROD; op++) {
        float out[3] = {9, 9, 9};
        CHECK_OK(tdm_allreduce(group, in, out, 3, TDM_F32, op, NULL));
        CHECK(memcmp(in, out, sizeof in) == 0, "allreduce %s", tdm_op_name(op));
        CHECK_OK(tdm_reduce_scatter(group, in, out, 3, TDM_F32, op, NULL));
        CHECK(memcmp(in, out, sizeof in) == 0, "reduce_scatter %s", tdm_op_name(op));
        CHECK_OK(tdm_reduce(group, in, out, 3, TDM_F32, op, 0, NULL));
        CHECK(memcmp(in, out, sizeof in) == 0, "reduce %s", tdm_op_name(op));
    }
    float out[3] = {9, 9, 9};
    CHECK_OK(tdm_alltoall(group, in, out, 3, TDM_F32, NULL));
    CHECK(memcmp(in, out, sizeof in) == 0, "alltoall");
    return NULL;
}

static void a_group_of_one_is_the_identity(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, is_alone, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_calls_are_calls),
        cmocka_unit_test(empty_calls_pair_up),
        cmocka_unit_test(empty_parts_leave_no_gap),
        cmocka_unit_test(a_group_of_one_is_the_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
