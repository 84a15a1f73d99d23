/* test_model.c - what a small job would take without something; every number can be worked out by hand. Times in us. */
#include "traces.h"

#include "job/graph.h"

#include <setjmp.h>

#include <cmocka.h>

#define STEPS 3
#define STEP 10000

static tdmi_model *model;

static void __attribute__((format(printf, 4, 5))) step_span(int rank, int start, int stop, const char *format, ...)
{
    char name[64];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    host(rank, "user_annotation", name, start, stop);
}

static double pct_without(tdmi_due due, double factor, int rank)
{
    tdmi_gain gain;
    tdmi_scaling scaling = tdmi_scaling_none();
    scaling.factor[due] = factor;
    scaling.rank = rank;
    tdmi_model_what_if(model, &(tdmi_variation){.change = tdmi_scale, .arg = &scaling}, &gain);
    return gain.pct;
}

static void start(void)
{
    assert_non_null(play());
    assert_int_equal(tdmi_model_create(stage.job, &model), TDM_OK);
    assert_true(model->replay_error_pct < 0.001 && model->replay_error_pct > -0.001);
    assert_int_equal(model->now_ns, STEP * 1000);
}

static void stop(void)
{
    tdmi_model_free(model);
    end();
}

#define NEAR(value, expected, slack)                                                                                   \
    do {                                                                                                               \
        const double got = (value);                                                                                    \
        if (got < (expected) - (slack) || got > (expected) + (slack))                                                  \
            fail_msg("%f, expected %f", got, (double)(expected));                                                      \
    } while (0)

/* 3 ms loader, a kernel of 6 ms, an item() that waits for it, 1 ms of the program. */
static void a_loader_that_is_waited_for_is_what_it_costs(void **state)
{
    (void)state;
    begin(1);
    for (int i = 0, t = 0; i < STEPS; i++, t += STEP) {
        step_span(0, t, t + STEP, "ProfilerStep#%d", i);
        host(0, "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", t, t + 3000);
        host(0, "cpu_op", "aten::mm", t + 3001, t + 3010);
        kernel(0, "gemm", 7, t + 3002, t + 3010, t + 9000);
        host(0, "cpu_op", "aten::item", t + 3012, t + 9005);
        host(0, "cuda_runtime", "cudaStreamSynchronize", t + 3013, t + 9004);
    }
    start();
    NEAR(pct_without(TDMI_DUE_DATA, 0, -1), 30, 0.1);
    NEAR(pct_without(TDMI_DUE_COMPUTE, 0.5, -1), 29.95, 0.2);
    NEAR(pct_without(TDMI_DUE_HOST, 0, -1), 0.2, 0.3);
    stop();
}

/* A device that is busy all the time behind a host that is ahead: the loader costs nothing. */
static void a_loader_behind_a_busy_device_costs_nothing(void **state)
{
    (void)state;
    begin(1);
    for (int i = 0, t = 0; i < STEPS; i++, t += STEP) {
        step_span(0, t, t + STEP, "ProfilerStep#%d", i);
        host(0, "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", t, t + 3000);
        host(0, "cpu_op", "aten::mm", t + 3001, t + 3010);
        kernel(0, "gemm", 7, t + 3002, i == 0 ? 3010 : t + 5000, t + 14999);
        kernel(0, "gemm", 7, t + 3100, t + 15000 - 1, t + 15000 - 1);
        host(0, "cpu_op", "aten::sleepy", t + 3200, t + 9999);
    }
    assert_non_null(play());
    assert_int_equal(tdmi_model_create(stage.job, &model), TDM_OK);
    NEAR(pct_without(TDMI_DUE_DATA, 0, -1), 0, 0.5);
    stop();
}

/* Two ranks compute 4 and 6 ms, then allreduce for 2 ms; the optimizer's kernel of 1 ms waits for it. Backward runs on autograd's thread. */
static void a_slow_rank_and_the_transfer_both_cost_the_others(void **state)
{
    (void)state;
    begin(2);
    for (int r = 0; r < 2; r++)
        for (int i = 0, t = 0; i < STEPS; i++, t += STEP) {
            const int computed = t + (r == 0 ? 4000 : 6000);
            step_span(r, t, t + STEP, "ProfilerStep#%d", i);
            host(r, "cpu_op", "aten::linear", t + 1, t + 20);
            host_on(r, 2, "cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", t + 60, t + 90);
            kernel_on(r, 2, "gemm", 7, t + 62, t + 70, computed);
            kernel_on(r, 2, "ncclDevKernel_AllReduce_Sum", 20, t + 75, computed + 1, t + 8000);
            host(r, "user_annotation", "Optimizer.step#SGD.step", t + 150, t + 200);
            host(r, "cpu_op", "aten::add_", t + 155, t + 190);
            kernel(r, "add", 7, t + 160, t + 8001, t + 9001);
            host(r, "cpu_op", "aten::item", t + 210, t + 9990);
            host(r, "cuda_runtime", "cudaStreamSynchronize", t + 211, t + 9980);
        }
    start();
    NEAR(pct_without(TDMI_DUE_TRANSFER, 0, -1), 20, 0.2);
    NEAR(pct_without(TDMI_DUE_COMPUTE, 4.0 / 6, 1), 20, 1.0); /* its add too: a third of a ms more */
    NEAR(pct_without(TDMI_DUE_COMPUTE, 0.5, 0), 2.5, 3.0);   /* rank 0 waits for rank 1 anyway */
    NEAR(pct_without(TDMI_DUE_HOST, 0, -1), 1, 1.2);
    stop();
}

static int64_t without_sync(const tdmi_link *link, const void *arg)
{
    (void)arg;
    return link->due == TDMI_DUE_SYNC ? TDMI_CUT : link->ns;
}

/* Each half of an iteration: launching 2 ms, then a kernel of 3 ms that item() waits for. Without the waits launching hides. */
static void a_sync_costs_the_launching_behind_it(void **state)
{
    (void)state;
    tdmi_gain gain;
    begin(1);
    for (int i = 0, t = 0; i < STEPS; i++, t += STEP) {
        step_span(0, t, t + STEP, "ProfilerStep#%d", i);
        for (int half = t; half < t + STEP; half += STEP / 2) {
            host(0, "cpu_op", "aten::slow_to_launch", half, half + 2010);
            kernel(0, "gemm", 7, half + 1990, half + 2000, half + 4990);
            host(0, "cpu_op", "aten::item", half + 2011, half + 4999);
            host(0, "cuda_runtime", "cudaStreamSynchronize", half + 2012, half + 4998);
        }
    }
    start();
    tdmi_model_what_if(model, &(tdmi_variation){.change = without_sync}, &gain);
    NEAR(gain.pct, 40, 1.5);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loader_that_is_waited_for_is_what_it_costs),
        cmocka_unit_test(a_loader_behind_a_busy_device_costs_nothing),
        cmocka_unit_test(a_slow_rank_and_the_transfer_both_cost_the_others),
        cmocka_unit_test(a_sync_costs_the_launching_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
