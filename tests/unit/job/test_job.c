/* test_job.c - what events mean, iterations, breakdown, collectives, syncs. */
#include "traces.h"

#include "job/breakdown.h"
#include "job/kernels.h"
#include "job/syncs.h"

#include <setjmp.h>

#include <cmocka.h>

/* 100 ms: computing until 80, communication from 75 to 95. */
static void communication_is_known_under_every_name(void **state)
{
    (void)state;
    static const char *const names[] = {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
                                        "rcclGenericKernel", "mscclKernel_Sum_half", "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(int)",
                                        "void dpsk::ep::internode::dispatch<true>(int)", "void vllm::cross_device_reduce_2stage<half, 8>(int)"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tdmi_breakdown b;
        begin(1);
        host(0, "user_annotation", "ProfilerStep#3", 0, 100000);
        kernel(0, "gemm", 7, 0, 0, 80000);
        kernel(0, names[i], 20, 10, 75000, 95000);
        tdmi_job *job = play();
        assert_non_null(job);
        assert_int_equal(tdmi_breakdown_make(job, &b), TDM_OK);
        assert_int_equal(b.mean[0].compute_ns, 80000000);
        assert_int_equal(b.mean[0].comm_exposed_ns, 15000000);
        assert_int_equal(b.mean[0].comm_overlap_ns, 5000000);
        assert_int_equal(b.mean[0].other_ns, 5000000);
        assert_int_equal(b.mean[0].length_ns, 100000000);
        tdmi_breakdown_free(&b);
        end();
    }
}

static void kernels_that_only_sound_like_it_compute(void **state)
{
    (void)state;
    begin(1);
    kernel(0, "void groupnorm_kernel_dispatch_up(int)", 7, 0, 10, 20);
    kernel(0, "void at::native::reduce_kernel<512, 1>(int)", 7, 20, 30, 40);
    kernel(0, "__amd_rocclr_fillBufferAligned", 7, 40, 50, 60);
    tdmi_job *job = play();
    assert_int_equal(job->meetings, 0);
    assert_false(job->rank[0].has_steps);
    assert_int_equal(job->rank[0].iterations, 1);
    assert_int_equal(job->rank[0].iteration[0].end_ns - job->rank[0].iteration[0].start_ns, 60000);
    end();
}

/* The device is idle from 0 to 10 ms (loader), 12 to 20 (launched at 19), 30 to 40 (in a sync until 38, then launched long before). */
static void idle_time_is_split_by_what_the_host_did(void **state)
{
    (void)state;
    tdmi_breakdown b;
    begin(1);
    host(0, "user_annotation", "ProfilerStep#1", 0, 50000);
    host(0, "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 9000);
    kernel(0, "a", 7, 9990, 10000, 12000);
    kernel(0, "b", 7, 19000, 20000, 30000);
    kernel(0, "c", 7, 19100, 40000, 50000);
    host(0, "cuda_runtime", "cudaStreamSynchronize", 20000, 38000);
    tdmi_job *job = play();
    assert_int_equal(tdmi_breakdown_make(job, &b), TDM_OK);
    const tdmi_split *s = &b.of[0][0];
    assert_int_equal(s->compute_ns, 22000000);
    assert_int_equal(s->data_ns, 9000000);
    assert_int_equal(s->host_ns, 990000 + 7000000);
    assert_int_equal(s->sync_ns, 8000000);
    assert_int_equal(s->kernel_ns, 10000 + 1000000 + 2000000);
    assert_int_equal(s->compute_ns + s->comm_exposed_ns + s->copy_ns + s->data_ns + s->sync_ns + s->host_ns + s->kernel_ns + s->other_ns, s->length_ns);
    tdmi_breakdown_free(&b);
    end();
}

/* A copy and its call. */
static void copy_by(const char *call, const char *name, int start, int end, int copy_start, int copy_end)
{
    stage.correlation++;
    put(0, "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"%s\", \"pid\": 9, \"tid\": 1, \"ts\": %d, \"dur\": %d, \"args\": {\"correlation\": %d}},", call, start + 1000000,
        end - start, stage.correlation);
    put(0, "{\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"%s\", \"pid\": 0, \"tid\": 7, \"ts\": %d, \"dur\": %d, \"args\": {\"device\": 0, \"stream\": 7, \"correlation\": %d}},",
        name, copy_start + 1000000, copy_end - copy_start, stage.correlation);
}

/* The device idles from 20 to 40 ms, between two kernels of which the second was launched long before, and in the copies around 60 and 80. */
static void idle_time_while_a_copy_is_waited_for_is_sync(void **state)
{
    (void)state;
    tdmi_breakdown b;
    begin(1);
    host(0, "user_annotation", "ProfilerStep#1", 0, 100000);
    kernel(0, "a", 7, 0, 0, 20000);
    kernel(0, "b", 7, 100, 40000, 60000);
    copy_by("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", 1000, 65000, 61000, 62000);
    copy_by("cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)", 70000, 75000, 71000, 72000); /* staged: it does not wait */
    kernel(0, "c", 7, 76000, 76000, 100000);
    tdmi_job *job = play();
    assert_int_equal(tdmi_breakdown_make(job, &b), TDM_OK);
    const tdmi_split *s = &b.of[0][0];
    assert_int_equal(s->compute_ns, 64000000);
    assert_int_equal(s->copy_ns, 2000000);
    assert_int_equal(s->sync_ns, 20000000 + 1000000 + 3000000);
    assert_int_equal(s->host_ns, 5000000 + 4000000);
    assert_int_equal(s->kernel_ns, 1000000);
    assert_int_equal(s->blocked_ns, 64000000);
    tdmi_breakdown_free(&b);
    end();
}

/* Four iterations of 10 ms on the host; on the device each has 8 ms of kernels and 2 ms of nothing, `late` ms after it was launched. */
static tdmi_job *run_ahead(int late)
{
    begin(1);
    for (int i = 0; i < 4; i++) {
        const int at = 10000 * i;
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", i + 5);
        host(0, "user_annotation", name, at, at + 10000);
        kernel(0, "prefetch", 9, at + 50, at + 60, at + 61); /* on a stream with nothing before it */
        kernel(0, "gemm", 7, at + 100, at + 1000 * late, at + 1000 * late + 5000);
        kernel(0, "gemm", 7, at + 200, at + 1000 * late + 7000, at + 1000 * late + 10000);
    }
    return play();
}

static void of_a_host_far_ahead_iterations_are_those_of_the_device(void **state)
{
    (void)state;
    tdmi_breakdown b;
    tdmi_job *job = run_ahead(35);
    assert_int_equal(tdmi_breakdown_make(job, &b), TDM_OK);
    for (int i = 0; i < 4; i++) {
        const tdmi_split *s = &b.of[0][i];
        assert_int_equal(s->length_ns, 10000000);
        assert_int_equal(s->compute_ns, 8000000);
        assert_int_equal(s->kernel_ns, 2000000);
        assert_int_equal(s->kernels, 3);
    }
    tdmi_breakdown_free(&b);
    end();
    job = run_ahead(9); /* less than an iteration: as the host has them */
    assert_int_equal(tdmi_breakdown_make(job, &b), TDM_OK);
    assert_int_equal(b.of[0][0].compute_ns, 1001000);
    assert_int_equal(b.of[0][0].length_ns, 10000000);
    tdmi_breakdown_free(&b);
    end();
}

/* The last iteration's kernels are not in the trace: there is no second window to go by. */
static void a_host_far_ahead_of_a_trace_that_is_cut_keeps_its_iterations(void **state)
{
    (void)state;
    tdmi_breakdown b;
    begin(1);
    host(0, "user_annotation", "ProfilerStep#1", 0, 10000);
    host(0, "user_annotation", "ProfilerStep#2", 10000, 20000);
    kernel(0, "gemm", 7, 100, 30000, 40000);
    tdmi_job *job = play();
    assert_int_equal(tdmi_breakdown_make(job, &b), TDM_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(b.of[0][i].length_ns, 10000000);
    tdmi_breakdown_free(&b);
    end();
}

static void events_of_no_possible_time_are_counted_and_left_out(void **state)
{
    (void)state;
    begin(1);
    host(0, "user_annotation", "ProfilerStep#1", 0, 1000);
    put(0, "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 9, \"tid\": 1, \"ts\": 9000000000000000, \"dur\": 5, \"args\": {}},");
    put(0, "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 9, \"tid\": 1, \"ts\": 1000001, \"dur\": 90000000000, \"args\": {}},");
    tdmi_job *job = play();
    assert_int_equal(job->rank[0].out_of_range, 2);
    assert_int_equal(job->rank[0].iterations, 1);
    assert_int_equal(job->rank[0].host_count, 1);
    end();
}

static void clocks_that_are_apart_make_no_late_rank(void **state)
{
    (void)state;
    begin(2);
    stage.ahead_us[1] = 3000;
    for (int r = 0; r < 2; r++)
        for (int step = 0; step < 3; step++) {
            char name[32];
            snprintf(name, sizeof name, "ProfilerStep#%d", step);
            host(r, "user_annotation", name, 1000 * step, 1000 * step + 1000);
            kernel(r, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", 20, 1000 * step + 10, 1000 * step + (r == 0 ? 100 : 400), 1000 * step + 500);
        }
    tdmi_job *job = play();
    assert_int_equal(job->meetings, 3);
    assert_int_equal(job->clock_spread_ns, 3000000);
    assert_int_equal(job->rank[1].last_to_join, 3);
    assert_int_equal(job->lined_up, 3);
    assert_true(job->meeting[0].lined_up);
    assert_int_equal(job->meeting[0].transfer_ns, 100000);
    assert_int_equal(job->meeting[0].joined_ns - job->part[job->meeting[0].first].start_ns, 300000);
    assert_string_equal(job->meeting[0].op, "allreduce");
    end();
}

/* Rank 1's window cut the first collective of the first iteration, and has one iteration less. */
static void collectives_are_matched_from_the_end_of_an_iteration(void **state)
{
    (void)state;
    begin(2);
    for (int r = 0; r < 2; r++)
        for (int step = 0; step < (r == 0 ? 3 : 2); step++) {
            char name[32];
            snprintf(name, sizeof name, "ProfilerStep#%d", step + 5);
            host(r, "user_annotation", name, 1000 * step, 1000 * step + 1000);
            if (r == 0 || step > 0)
                kernel(r, "ncclDevKernel_AllReduce_a", 20, 1000 * step + 10, 1000 * step + 100, 1000 * step + 200);
            kernel(r, "ncclDevKernel_AllReduce_a", 20, 1000 * step + 300, 1000 * step + 400, 1000 * step + 500);
        }
    tdmi_job *job = play();
    size_t together = 0;
    for (size_t i = 0; i < job->meetings; i++)
        together += job->meeting[i].count == 2;
    assert_int_equal(job->meetings, 6);
    assert_int_equal(together, 3);
    assert_int_equal(job->clock_spread_ns, 0);
    end();
}

static void a_sync_is_named_with_its_operator_and_line(void **state)
{
    (void)state;
    tdmi_syncs syncs;
    begin(1);
    host(0, "python_function", "train.py(41): step", 0, 1000);
    host(0, "python_function", "torch/_tensor.py(12): item", 90, 400);
    host(0, "cpu_op", "aten::item", 100, 400);
    host(0, "cpu_op", "aten::_local_scalar_dense", 110, 390);
    host(0, "cuda_runtime", "cudaStreamSynchronize", 120, 380);
    kernel(0, "gemm", 7, 50, 60, 370);
    tdmi_job *job = play();
    assert_int_equal(tdmi_syncs_find(job, &syncs), TDM_OK);
    assert_int_equal(syncs.count, 1);
    assert_string_equal(syncs.of[0].call, "cudaStreamSynchronize");
    assert_string_equal(syncs.of[0].op, "aten::item");
    assert_string_equal(syncs.of[0].line, "train.py(41): step");
    assert_int_equal(syncs.of[0].blocked_ns, 260000);
    tdmi_syncs_free(&syncs);
    end();
}

static void the_queue_of_a_stream_is_counted(void **state)
{
    (void)state;
    tdmi_launches launches;
    begin(1);
    for (int i = 0; i < 4; i++)
        kernel(0, "gemm", 7, 10 * i, 100 + 100 * i, 199 + 100 * i);
    tdmi_job *job = play();
    tdmi_launches_measure(job, 0, &launches);
    assert_int_equal(launches.count, 4);
    assert_int_equal(launches.queue_most, 4);
    assert_int_equal(launches.gap_ns, 1000);
    end();
}

/* One kernel of 2 s in a trace of 1 ms, over its successor. */
static void a_kernel_longer_than_the_trace_is_left_out(void **state)
{
    (void)state;
    tdmi_breakdown b;
    begin(1);
    host(0, "user_annotation", "ProfilerStep#1", 0, 1000);
    kernel(0, "gemm", 7, 10, 100, 300);
    kernel(0, "wrong", 7, 20, 310, 2000310);
    kernel(0, "gemm", 7, 30, 400, 600);
    tdmi_job *job = play();
    assert_int_equal(job->rank[0].overlong, 1);
    assert_int_equal(tdmi_breakdown_make(job, &b), TDM_OK);
    assert_int_equal(b.mean[0].compute_ns, 400000);
    tdmi_breakdown_free(&b);
    end();
}

static void an_empty_trace_is_a_job_without_anything(void **state)
{
    (void)state;
    tdmi_breakdown b;
    begin(1);
    put(0, " ");
    tdmi_job *job = play();
    assert_non_null(job);
    assert_int_equal(job->rank[0].iterations, 0);
    assert_int_equal(tdmi_breakdown_make(job, &b), TDM_OK);
    tdmi_breakdown_free(&b);
    end();
}

/* A trace that a daemon asked for: from the end of one step of the optimizer to that of another, and a rest. */
static void asked_for(int rank, int late, int iterations)
{
    for (int i = 0; i < iterations; i++) {
        host(rank, "cpu_op", "aten::addmm", late + i * 10000, late + i * 10000 + 6000);
        host_on(rank, 2, "user_annotation", "gloo:all_reduce", late + i * 10000 + 2000, i * 10000 + 8000);
        host(rank, "user_annotation", "Optimizer.step#SGD.step", i * 10000 + 9000, i * 10000 + 10000);
    }
    host(rank, "cpu_op", "aten::addmm", iterations * 10000 + 500, iterations * 10000 + 800);
}

static void without_profiler_steps_the_optimizer_cuts(void **state)
{
    (void)state;
    begin(2);
    asked_for(0, 0, 4);
    asked_for(1, 1000, 4);
    host_on(1, 2, "user_annotation", "gloo:all_reduce", 40700, 40800); /* of a fifth iteration, which rank 0 does not show */
    tdmi_job *job = play();
    for (size_t r = 0; r < 2; r++) {
        assert_true(job->rank[r].has_steps);
        assert_true(tdmi_steps_are_cut(&job->rank[r]));
        assert_int_equal(job->rank[r].iterations, 4);
        assert_int_equal(job->rank[r].iteration[0].number, 1);
        assert_int_equal(job->rank[r].iteration[3].end_ns - job->rank[r].iteration[2].end_ns, 10000000);
    }
    assert_int_equal(job->meetings, 4);
    for (size_t m = 0; m < 4; m++)
        assert_int_equal(job->meeting[m].count, 2);
    end();
}

static void a_first_iteration_that_is_not_whole_is_none_and_ranks_agree_by_time(void **state)
{
    (void)state;
    begin(2);
    for (int i = 0; i < 4; i++) {
        for (int r = 0; r < 2; r++) {
            if (r == 1 && i == 0)
                continue; /* its trace begins after this one's end */
            for (int op = 0; op < 10; op++)
                if (i > 1 || op > 7) /* and begins within an iteration */
                    host(r, "cpu_op", "aten::addmm", i * 10000 + op * 800, i * 10000 + op * 800 + 500);
            host(r, "user_annotation", "Optimizer.step#Adam.step", i * 10000 + 9000, i * 10000 + 9900);
            host(r, "user_annotation", "Optimizer.step#Outer.step", i * 10000 + 8900, i * 10000 + 10000);
        }
    }
    tdmi_job *job = play();
    assert_int_equal(job->rank[1].iterations, 2);
    const tdmi_rank *first = &job->rank[0], *second = &job->rank[1];
    for (size_t i = 0; i < first->iterations; i++)
        for (size_t k = 0; k < second->iterations; k++)
            assert_int_equal(first->iteration[i].number == second->iteration[k].number, first->iteration[i].end_ns == second->iteration[k].end_ns);
    assert_int_equal(second->iteration[0].end_ns - second->iteration[0].start_ns, 10000000);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(communication_is_known_under_every_name),
        cmocka_unit_test(kernels_that_only_sound_like_it_compute),
        cmocka_unit_test(without_profiler_steps_the_optimizer_cuts),
        cmocka_unit_test(a_first_iteration_that_is_not_whole_is_none_and_ranks_agree_by_time),
        cmocka_unit_test(idle_time_is_split_by_what_the_host_did),
        cmocka_unit_test(idle_time_while_a_copy_is_waited_for_is_sync),
        cmocka_unit_test(of_a_host_far_ahead_iterations_are_those_of_the_device),
        cmocka_unit_test(a_host_far_ahead_of_a_trace_that_is_cut_keeps_its_iterations),
        cmocka_unit_test(events_of_no_possible_time_are_counted_and_left_out),
        cmocka_unit_test(clocks_that_are_apart_make_no_late_rank),
        cmocka_unit_test(collectives_are_matched_from_the_end_of_an_iteration),
        cmocka_unit_test(a_sync_is_named_with_its_operator_and_line),
        cmocka_unit_test(the_queue_of_a_stream_is_counted),
        cmocka_unit_test(a_kernel_longer_than_the_trace_is_left_out),
        cmocka_unit_test(an_empty_trace_is_a_job_without_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
