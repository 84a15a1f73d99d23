/* test_buckets.c - gradients and buckets of jobs small enough to count. Times in us. */
#include "traces.h"

#include "job/buckets.h"

#include <math.h>
#include <setjmp.h>

#include <cmocka.h>

#define MEGA (1 << 20)

static tdmi_buckets buckets;

/* A gradient of `elements` floats, complete behind a kernel that ends at `until`. */
static void gradient(int rank, int at, int until, int elements)
{
    kernel(rank, "gemm", 7, at, until - 10, until);
    put(rank, "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"autograd::engine::evaluate_function: torch::autograd::AccumulateGrad\", \"pid\": 9, \"tid\": 1, \"ts\": %d, \"dur\": 40, \"args\": {}},",
        1000000 + at + 10);
    put(rank, "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"torch::autograd::AccumulateGrad\", \"pid\": 9, \"tid\": 1, \"ts\": %d, \"dur\": 5, \"args\": {%s",
        1000000 + at + 11, elements > 0 ? "" : "}},");
    if (elements > 0)
        put(rank, "\"External id\": 1, \"Input Dims\": [[%d, %d]]}},", elements / 1024, 1024);
}

/* An all-reduce of so many floats, called at `call`. */
static void allreduce(int rank, int call, int start, int end, int elements, int seq)
{
    stage.correlation++;
    put(rank, "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernelExC\", \"pid\": 9, \"tid\": 1, \"ts\": %d, \"dur\": 5, \"args\": {\"correlation\": %d}},", 1000000 + call,
        stage.correlation);
    put(rank, "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"ncclDevKernel_AllReduce_Sum_f32_RING_LL()\", \"pid\": 0, \"tid\": 20, \"ts\": %d, \"dur\": %d, \"args\": {\"device\": 0, \"stream\": 20, "
              "\"correlation\": %d, \"Collective name\": \"allreduce\", \"In msg nelems\": %d, \"Out msg nelems\": %d, \"Group size\": 2, \"dtype\": \"Float\", \"Process Group Name\": \"0\", "
              "\"Process Group Ranks\": \"[0, 1]\", \"Seq\": %d}},",
        1000000 + start, end - start, stage.correlation, elements, elements, seq);
}

static void find(void)
{
    assert_non_null(play());
    assert_int_equal(tdmi_buckets_find(stage.job, &buckets), TDM_OK);
}

static void stop(void)
{
    tdmi_buckets_free(&buckets);
    end();
}

static void gradients_count_by_their_bytes(void **state)
{
    (void)state;
    begin(2);
    for (int r = 0; r < 2; r++) {
        host(r, "user_annotation", "ProfilerStep#1", 0, 10000);
        gradient(r, 1000, 1500, 1024);
        gradient(r, 2000, 2500, 3 * 1024);
        allreduce(r, 2030, 2510, 3000, 4 * 1024, 1);
        gradient(r, 3000, 3500, 12 * 1024);
        allreduce(r, 3030, 3510, 4100, 12 * 1024, 2);
    }
    find();
    assert_int_equal(buckets.gradients[1], 3);
    assert_true(fabs(buckets.gradient[1][0].share - 1.0 / 16) < 1e-9);
    assert_true(fabs(buckets.gradient[1][1].share - 0.25) < 1e-9);
    assert_ptr_equal(tdmi_gradient_at(&buckets, 0, 0, 0.2), &buckets.gradient[0][1]);
    assert_int_equal(buckets.count, 2);
    /* each is launched inside of the node that completes its last gradient, whose host time comes after the launch */
    assert_true(fabs(buckets.of[0].share - 0.25) < 1e-9 && fabs(buckets.of[0].complete_at_send - 1.0 / 16) < 1e-9);
    assert_true(fabs(tdmi_gradients_complete(&buckets, 0, 0, buckets.gradient[0][1].ns) - 0.25) < 1e-9);
    stop();
}

static void without_shapes_each_gradient_counts_the_same(void **state)
{
    (void)state;
    begin(1);
    host(0, "user_annotation", "ProfilerStep#1", 0, 10000);
    for (int i = 0; i < 4; i++)
        gradient(0, 1000 + 1000 * i, 1500 + 1000 * i, i == 2 ? 0 : 1024);
    find();
    for (int i = 0; i < 4; i++)
        assert_true(fabs(buckets.gradient[0][i].share - 0.25 * (i + 1)) < 1e-9);
    stop();
}

/* 100 us a call and 1 us for each 4096 bytes. */
static void calls_and_bytes_are_told_apart(void **state)
{
    (void)state;
    begin(2);
    for (int r = 0; r < 2; r++) {
        host(r, "user_annotation", "ProfilerStep#1", 0, 20000);
        for (int i = 0; i < 4; i++) {
            gradient(r, 1000 + 3000 * i, 1500 + 3000 * i, 1024);
            allreduce(r, 1030 + 3000 * i, 1510 + 3000 * i, 1510 + 3000 * i + 100 + 100 * (i + 1), 102400 * (i + 1), i + 1);
        }
    }
    find();
    assert_true(buckets.line_known);
    assert_true(fabs(buckets.call_ns - 100000) < 1 && fabs(buckets.byte_ns - 1000.0 / 4096) < 1e-6);
    stop();
}

static void sizes_all_alike_say_nothing_of_calls(void **state)
{
    (void)state;
    begin(2);
    for (int r = 0; r < 2; r++) {
        host(r, "user_annotation", "ProfilerStep#1", 0, 20000);
        for (int i = 0; i < 3; i++) {
            gradient(r, 1000 + 3000 * i, 1500 + 3000 * i, 1024);
            allreduce(r, 1030 + 3000 * i, 1510 + 3000 * i, 1530 + 3000 * i, 102400, i + 1);
        }
    }
    find();
    assert_false(buckets.line_known);
    assert_true(buckets.call_ns <= 20000); /* no more than a transfer takes */
    stop();
}

/* 0.5, 1, 30 and 8 MB: a first bucket of the first two, then as DDP closes them. */
static void the_plan_is_ddps(void **state)
{
    (void)state;
    static const int mega[] = {1, 2, 60, 16, 4}; /* halves */
    begin(2);
    for (int r = 0; r < 2; r++) {
        host(r, "user_annotation", "ProfilerStep#1", 0, 20000);
        for (int i = 0; i < 5; i++)
            gradient(r, 1000 + 1000 * i, 1500 + 1000 * i, mega[i] * MEGA / 8);
        allreduce(r, 5040, 5600, 9000, 83 * MEGA / 8, 1);
    }
    find();
    assert_int_equal(buckets.planned, 3);
    assert_int_equal(buckets.plan[0].nbytes, 3 * MEGA / 2);
    assert_int_equal(buckets.plan[1].nbytes, 30 * MEGA);
    assert_int_equal(buckets.plan[2].nbytes, 10 * MEGA);
    assert_true(buckets.plan[2].last == 0 && fabs(buckets.plan[2].share - 1) < 1e-9);
    stop();
}

/* Before 2023-10 kernels do not say what they carry; the operator around the launch has its input's shape. */
static void old_traces_have_the_size_in_the_operator_around(void **state)
{
    (void)state;
    begin(2);
    for (int r = 0; r < 2; r++) {
        host(r, "user_annotation", "ProfilerStep#1", 0, 10000);
        gradient(r, 1000, 1500, 1024);
        put(r, "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"nccl:all_reduce\", \"pid\": 9, \"tid\": 1, \"ts\": %d, \"dur\": 20, \"args\": {\"Input type\": [\"float\"], "
               "\"Input Dims\": [[5120]]}},",
            1001020);
        kernel(r, "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 20, 1030, 1510, 1700);
    }
    find();
    assert_int_equal(buckets.count, 1);
    assert_int_equal(buckets.of[0].nbytes, 4 * 5120);
    stop();
}

static void a_job_without_gradients_has_no_buckets(void **state)
{
    (void)state;
    begin(1);
    host(0, "user_annotation", "ProfilerStep#1", 0, 1000);
    kernel(0, "gemm", 7, 10, 20, 500);
    find();
    assert_true(buckets.count == 0 && buckets.planned == 0 && buckets.gradients[0] == 0);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_count_by_their_bytes),
        cmocka_unit_test(without_shapes_each_gradient_counts_the_same),
        cmocka_unit_test(calls_and_bytes_are_told_apart),
        cmocka_unit_test(sizes_all_alike_say_nothing_of_calls),
        cmocka_unit_test(the_plan_is_ddps),
        cmocka_unit_test(old_traces_have_the_size_in_the_operator_around),
        cmocka_unit_test(a_job_without_gradients_has_no_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
