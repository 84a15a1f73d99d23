/* test_nccl.c - what engine nccl asks of NCCL, which a stub writes down: types, operations, errors, and that memory of the host goes
 * by step lists. Numbers are those of NCCL's header (nccl_header.c). */
#include "on_ranks.h"

#include <tandem/op.h>

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *device; /* 64 KiB that CUDA's stub takes for a device's */
static char (*logs)[8192];
static int *fails;

static const char *open_group(tdm_group **out)
{
    tdm_group_options options = ranks_options();
    options.engine = "nccl";
    CHECK_OK(tdm_group_create(&options, out));
    CHECK_THAT(strcmp(tdm_group_engine(*out), "nccl") == 0);
    logs[options.rank][0] = '\0';
    return NULL;
}

#define ASKED(text)                                                                                                    \
    do {                                                                                                               \
        CHECK(strcmp(logs[rank], text) == 0, "line %d: NCCL was asked\n%s", __LINE__, logs[rank]);                      \
        logs[rank][0] = '\0';                                                                                          \
    } while (0)

static const char *reduces(tdm_group *group, void *arg)
{
    static const struct {
        tdm_dtype dtype;
        tdm_op op;
        const char *asked;
    } cases[] = {
        {TDM_F32, TDM_SUM, "allreduce 5 type 7 op 0\n"},  {TDM_F64, TDM_PROD, "allreduce 5 type 8 op 1\n"},
        {TDM_F16, TDM_MAX, "allreduce 5 type 6 op 2\n"},  {TDM_BF16, TDM_MIN, "allreduce 5 type 9 op 3\n"},
        {TDM_F32, TDM_AVG, "allreduce 5 type 7 op 4\n"},  {TDM_I8, TDM_SUM, "allreduce 5 type 0 op 0\n"},
        {TDM_U8, TDM_SUM, "allreduce 5 type 1 op 0\n"},   {TDM_I32, TDM_MAX, "allreduce 5 type 2 op 2\n"},
        {TDM_U32, TDM_SUM, "allreduce 5 type 3 op 0\n"},  {TDM_I64, TDM_MIN, "allreduce 5 type 4 op 3\n"},
        {TDM_U64, TDM_PROD, "allreduce 5 type 5 op 1\n"}, {TDM_C64, TDM_SUM, "allreduce 10 type 7 op 0\n"},
    };
    (void)arg;
    const int rank = ranks_options().rank;
    const char *wrong = open_group(&group);
    for (size_t i = 0; i < sizeof cases / sizeof *cases && wrong == NULL; i++) {
        CHECK_OK(tdm_allreduce(group, device, device + 4096, 5, cases[i].dtype, cases[i].op, NULL));
        ASKED(cases[i].asked);
    }
    CHECK_OK(tdm_reduce(group, device, rank == 1 ? device + 4096 : NULL, 5, TDM_F32, TDM_SUM, 1, NULL));
    ASKED("reduce 5 type 7 op 0 to 1\n");
    CHECK_OK(tdm_reduce_scatter(group, device, device + 4096, 5, TDM_BF16, TDM_SUM, NULL));
    ASKED("reduce_scatter 5 type 9 op 0\n");
    const size_t counts[2] = {3, 4};
    CHECK_OK(tdm_reduce_scatterv(group, device, device + 4096, counts, TDM_I32, TDM_SUM, NULL));
    ASKED("begin\nreduce 3 type 2 op 0 to 0\nreduce 4 type 2 op 0 to 1\nend\n");
    tdm_op twice;
    CHECK_OK(tdm_op_create_premul(TDM_F16, &(float){2}, &twice));
    CHECK_OK(tdm_allreduce(group, device, device, 5, TDM_F16, twice, NULL));
    ASKED("premul 4000 type 6 residence 1\nallreduce 5 type 6 op 77 in place\nforget 77\n");
    CHECK_OK(tdm_op_free(twice));
    tdm_group_destroy(group);
    ASKED("destroy\n");
    return wrong;
}

static const char *moves(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = ranks_options().rank;
    const char *wrong = open_group(&group);
    if (wrong != NULL)
        return wrong;
    const size_t counts[2] = {3, 4};
    CHECK_OK(tdm_all_gather(group, device, device + 4096, 5, TDM_C64, NULL));
    ASKED("all_gather 40 type 1\n");
    CHECK_OK(tdm_broadcast(group, device, 5, TDM_BOOL, 1, NULL));
    ASKED("broadcast 5 type 1 from 1\n");
    CHECK_OK(tdm_all_gatherv(group, device, device + 4096, counts, TDM_F32, NULL));
    ASKED("begin\nbroadcast 12 type 1 from 0\nbroadcast 16 type 1 from 1\nend\n");
    CHECK_OK(tdm_alltoall(group, device, device + 4096, 5, TDM_F32, NULL));
    ASKED("begin\nsend 20 type 1 to 0\nreceive 20 type 1 from 0\nsend 20 type 1 to 1\nreceive 20 type 1 from 1\nend\n");
    CHECK_OK(tdm_gather(group, device, rank == 0 ? device + 4096 : NULL, 5, TDM_F32, 0, NULL));
    if (rank == 0)
        ASKED("begin\nsend 20 type 1 to 0\nreceive 20 type 1 from 0\nreceive 20 type 1 from 1\nend\n");
    else
        ASKED("begin\nsend 20 type 1 to 0\nend\n");
    CHECK_OK(tdm_scatterv(group, rank == 1 ? device : NULL, counts, device + 4096, counts[rank], TDM_U8, 1, NULL));
    if (rank == 1)
        ASKED("begin\nsend 3 type 1 to 0\nsend 4 type 1 to 1\nreceive 4 type 1 from 1\nend\n");
    else
        ASKED("begin\nreceive 3 type 1 from 1\nend\n");
    tdm_group_destroy(group);
    return NULL;
}

static const char *uses_the_host(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = ranks_options().rank;
    const char *wrong = open_group(&group);
    if (wrong != NULL)
        return wrong;
    float values[100];
    for (int i = 0; i < 100; i++)
        values[i] = (float)(rank + i);
    CHECK_OK(tdm_allreduce(group, values, values, 100, TDM_F32, TDM_SUM, NULL));
    CHECK(values[7] == 15, "the host's sum is %g", (double)values[7]);
    CHECK_OK(tdm_barrier(group, NULL));
    ASKED("");
    tdm_work *work;
    CHECK_OK(tdm_allreduce(group, device, device, 5, TDM_F32, TDM_SUM, &work));
    CHECK_OK(tdm_allreduce(group, values, values, 100, TDM_F32, TDM_SUM, NULL)); /* in between */
    CHECK(values[7] == 30, "the host's sum is %g", (double)values[7]);
    CHECK_OK(tdm_work_wait(work));
    tdm_group *sub;
    CHECK_OK(tdm_group_create_sub(group, (int[]){1, 0}, 2, &sub));
    CHECK(strstr(logs[1 - rank], "init") != NULL, "the sub-group has a communicator");
    tdm_group_destroy(sub);
    tdm_group_destroy(group);
    return NULL;
}

static const char *is_refused(tdm_group *group, void *arg)
{
    static const struct {
        tdm_dtype dtype;
        tdm_op op;
        const char *text;
    } cases[] = {
        {TDM_I32, TDM_BAND, "band of int32 does not exist on engine nccl"},
        {TDM_BOOL, TDM_SUM, "sum of bool does not exist on engine nccl"},
        {TDM_I64, TDM_AVG, "avg of int64 does not exist on engine nccl"},
        {TDM_C64, TDM_PROD, "prod of complex64 does not exist on engine nccl"},
    };
    (void)arg;
    const int rank = ranks_options().rank;
    const char *wrong = open_group(&group);
    for (size_t i = 0; i < sizeof cases / sizeof *cases && wrong == NULL; i++) {
        tdm_status status = tdm_allreduce(group, device, device, 5, cases[i].dtype, cases[i].op, NULL);
        CHECK(status == TDM_ERR_UNSUPPORTED && strstr(tdm_error_text(), cases[i].text) != NULL, "%s: %s", tdm_status_name(status),
              tdm_error_text());
    }
    CHECK(tdm_alltoall(group, device, device, 5, TDM_F32, NULL) == TDM_ERR_UNSUPPORTED, "alltoall in place");
    ASKED("");
    tdm_group_destroy(group);
    return wrong;
}

static const char *reports_errors(tdm_group *group, void *arg)
{
    static const struct {
        int result;
        tdm_status status;
    } cases[] = {{1, TDM_ERR_SYSTEM}, {2, TDM_ERR_SYSTEM}, {3, TDM_ERR_SYSTEM}, {4, TDM_ERR_INVALID}, {5, TDM_ERR_INVALID},
                 {6, TDM_ERR_PEER_LOST}, {8, TDM_ERR_TIMEOUT}};
    (void)arg;
    const char *wrong = open_group(&group);
    for (size_t i = 0; i < sizeof cases / sizeof *cases && wrong == NULL; i++) {
        *fails = cases[i].result;
        tdm_status status = tdm_allreduce(group, device, device, 5, TDM_F32, TDM_SUM, NULL);
        CHECK(status == cases[i].status && strstr(tdm_error_text(), "the last error") != NULL && strstr(tdm_error_text(), "rank 0") != NULL,
              "%d gives %s: %s", cases[i].result, tdm_status_name(status), tdm_error_text());
    }
    CHECK_OK(tdm_allreduce(group, device, device, 5, TDM_F32, TDM_SUM, NULL));
    tdm_group_destroy(group);
    return wrong;
}

/* ---- calls of several, calls again, calls that differ ---- */

static const char *gathers_and_keeps(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = ranks_options().rank;
    const char *wrong = open_group(&group);
    tdm_work *work, *kept;
    tdm_op half;
    float host[2] = {1, 2};
    CHECK_OK(tdm_coalesce_begin(group));
    CHECK_OK(tdm_allreduce(group, device, device + 4096, 5, TDM_F32, TDM_SUM, NULL));
    CHECK_OK(tdm_allreduce(group, host, host, 2, TDM_F32, TDM_SUM, NULL));
    CHECK_OK(tdm_broadcast(group, device, 7, TDM_U8, 1, NULL));
    ASKED("");
    CHECK_OK(tdm_coalesce_end(group, &work));
    ASKED("begin\nallreduce 5 type 7 op 0\nbroadcast 7 type 1 from 1\nend\n");
    CHECK_OK(tdm_work_keep(work));
    CHECK_OK(tdm_work_wait(work));
    CHECK(host[0] == 2 && host[1] == 4, "the host's sums are %g and %g", (double)host[0], (double)host[1]);
    CHECK_OK(tdm_work_start(work));
    ASKED("begin\nallreduce 5 type 7 op 0\nbroadcast 7 type 1 from 1\nend\n");
    CHECK_OK(tdm_work_wait(work));
    CHECK(host[0] == 4 && host[1] == 8, "the host's sums are %g and %g", (double)host[0], (double)host[1]);
    tdm_work_free(work);
    size_t counts[2] = {3, 4};
    CHECK_OK(tdm_op_create_premul(TDM_F32, &(float){0.5f}, &half));
    CHECK_OK(tdm_reduce_scatterv(group, device, device + 4096, counts, TDM_F32, half, &kept));
    CHECK_OK(tdm_work_keep(kept));
    CHECK_OK(tdm_work_wait(kept));
    counts[0] = counts[1] = 1000; /* the caller's again */
    logs[rank][0] = '\0';
    for (int i = 0; i < 2; i++) {
        CHECK_OK(tdm_work_start(kept));
        CHECK_OK(tdm_work_wait(kept));
        ASKED("begin\nreduce 3 type 7 op 77 to 0\nreduce 4 type 7 op 77 to 1\nend\n");
    }
    tdm_work_free(kept);
    ASKED("forget 77\n");
    CHECK_OK(tdm_op_free(half));
    tdm_group_destroy(group);
    return wrong;
}

static const char *differs(tdm_group *group, void *arg)
{
    static const char *const texts[] = {
        "rank 0 makes allreduce of 5 float32 (sum) on a device, but rank 1 makes allreduce of 5 float32 (max) on a device",
        "rank 0 makes allreduce of 5 float32 (sum) on a device, but rank 1 makes allreduce of 5 float32 (sum);",
        "alltoallv: rank 1 gives 2 float32 to rank 0, which expects 1 of them",
    };
    const int which = *(int *)arg;
    const bool odd = ranks_options().rank == 1;
    const size_t one[2] = {1, 1}, two[2] = {2, 1};
    float host[5] = {0};
    tdm_status status;
    const char *wrong = open_group(&group);
    if (wrong != NULL)
        return wrong;
    if (which == 0)
        status = tdm_allreduce(group, device, device, 5, TDM_F32, odd ? TDM_MAX : TDM_SUM, NULL);
    else if (which == 1)
        status = tdm_allreduce(group, odd ? (void *)host : device, odd ? (void *)host : device, 5, TDM_F32, TDM_SUM, NULL);
    else
        status = tdm_alltoallv(group, device, odd ? two : one, device + 4096, one, TDM_F32, NULL);
    CHECK(status == TDM_ERR_MISMATCH && strstr(tdm_error_text(), texts[which]) != NULL, "%s: %s", tdm_status_name(status), tdm_error_text());
    tdm_group_destroy(group);
    return NULL;
}

static void run(ranks_body body, int n)
{
    ranks_run(&(ranks_spec){.n = n, .transport = "shm", .no_group = true}, body, NULL);
}

static void each_type_and_operation_is_that_of_nccl(void **state)
{
    (void)state;
    run(reduces, 2);
    const char(*ids)[128] = dlsym(RTLD_DEFAULT, "nccl_stub_id");
    if (ids == NULL)
        ids = dlsym(dlopen("libnccl.so.2", RTLD_NOW), "nccl_stub_id");
    assert_memory_equal(ids[0], ids[1], 128);
    assert_int_equal(ids[1][5], 16);
}

static void parts_travel_as_bytes(void **state)
{
    (void)state;
    run(moves, 2);
}

static void memory_of_the_host_goes_by_step_lists(void **state)
{
    (void)state;
    run(uses_the_host, 2);
}

static void what_nccl_lacks_is_refused_by_name(void **state)
{
    (void)state;
    run(is_refused, 2);
}

static void calls_are_gathered_and_made_again(void **state)
{
    (void)state;
    run(gathers_and_keeps, 2);
}

static void calls_on_devices_are_compared(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++)
        for (int tcp = 0; tcp < 2; tcp++)
            ranks_run(&(ranks_spec){.n = 2, .transport = tcp ? "tcp" : "shm", .no_group = true}, differs, &which);
}

/* Calls that fail were not made: only rank 0 tries them. */
static const char *rank_0_reports_errors(tdm_group *group, void *arg)
{
    if (ranks_options().rank == 0)
        return reports_errors(group, arg);
    const char *wrong = open_group(&group);
    CHECK_OK(tdm_allreduce(group, device, device, 5, TDM_F32, TDM_SUM, NULL)); /* the one that does not fail */
    tdm_group_destroy(group);
    return wrong;
}

static void errors_have_their_status_and_nccls_words(void **state)
{
    (void)state;
    run(rank_0_reports_errors, 2);
}

int main(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *nccl = dlopen("libnccl.so.2", RTLD_NOW);
    device = cuda != NULL ? dlsym(cuda, "cuda_stub_memory") : NULL;
    logs = nccl != NULL ? dlsym(nccl, "nccl_stub_log") : NULL;
    fails = nccl != NULL ? dlsym(nccl, "nccl_stub_fail") : NULL;
    if (device == NULL || logs == NULL || fails == NULL) {
        fprintf(stderr, "the stubs of libcuda.so.1 and libnccl.so.2 are not first in LD_LIBRARY_PATH\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_and_operation_is_that_of_nccl), cmocka_unit_test(parts_travel_as_bytes),
        cmocka_unit_test(memory_of_the_host_goes_by_step_lists),   cmocka_unit_test(what_nccl_lacks_is_refused_by_name),
        cmocka_unit_test(errors_have_their_status_and_nccls_words), cmocka_unit_test(calls_are_gathered_and_made_again),
        cmocka_unit_test(calls_on_devices_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
