/* test_overlap.c - communication goes on while one long kernel runs: a reduction ends between two of its tiles. */
#include "tiny_run.h"

#include "core/cpu.h"
#include "on_ranks.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define WINDOWS 64  /* of a rank: products of the first layer, 8,192 by 512, take milliseconds */
#define STEPS 100   /* in one of them both ranks are inside a kernel at once; mostly in the first */
#define EVENTS 4096

/* Whether a reduction of this step ended while a kernel ran. */
static bool ended_inside(const tdmi_trace *trace, int64_t step)
{
    const size_t count = tdmi_trace_count(trace, NULL);
    for (size_t i = 0; i < count; i++) {
        const tdmi_trace_event reduction = tdmi_trace_get(trace, i);
        if (reduction.track != TDMI_TRACK_COMMUNICATION || reduction.step != step)
            continue;
        for (size_t k = 0; k < count; k++) {
            const tdmi_trace_event node = tdmi_trace_get(trace, k);
            if (node.track == TDMI_TRACK_COMPUTE && node.begin_ns < reduction.end_ns && reduction.end_ns < node.end_ns)
                return true;
        }
    }
    return false;
}

static const char *learn(tdm_group *group, const tdmi_graph *g, tdmi_exec *exec, const tdmi_trace *trace, int seq)
{
    int32_t *tokens = tdmi_exec_memory(exec, tdmi_graph_find(g, "tokens"));
    int32_t *targets = tdmi_exec_memory(exec, tdmi_graph_find(g, "targets"));
    for (int i = 0; i < WINDOWS * seq; i++)
        tokens[i] = i % 61;
    for (int i = 0; i < WINDOWS; i++)
        targets[i] = i % 61;
    for (int step = 1; step <= STEPS; step++) {
        tdmi_step_result r;
        CHECK_OK(tdmi_exec_step(exec, step, 1, 1e-3, false, true, &r));
        CHECK(r.comm_exposed_ns <= r.comm_ns, "exposed %lld ns of %lld", (long long)r.comm_exposed_ns, (long long)r.comm_ns);
        int32_t seen = ended_inside(trace, step);
        CHECK_OK(tdm_allreduce(group, &seen, &seen, 1, TDM_I32, TDM_MAX, NULL));
        if (seen)
            return NULL;
    }
    return "no reduction ended inside a kernel";
}

static const char *body(tdm_group *group, void *arg)
{
    (void)arg;
    const tdmi_model *model = tdmi_model_find("mlp");
    const tdmi_model_config config = {.layers = 2, .width = 512, .seq = 16, .vocab = 61};
    const tdmi_pipeline_options pipeline = {.train = true, .world_size = tdm_group_size(group), .bucket_cap_mb = 1,
                                            .first_bucket_mb = 0.1, .clip = true};
    tdmi_graph *g = model->build(&config, WINDOWS, TDMI_BUILD_LOSS, true);
    tdmi_exec *exec = NULL;
    tdmi_trace *trace = NULL;
    CHECK_OK(tdmi_pipeline_run(g, &pipeline));
    CHECK_OK(tdmi_trace_create(tdm_group_rank(group), EVENTS, &trace));
    const tdmi_exec_options options = {.group = group, .clip = 1, .isa = tdmi_cpu_isa(), .trace = trace,
                                       .optimizer = {.kind = TDMI_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}};
    CHECK_OK(tdmi_exec_create(g, &options, &exec));
    CHECK_OK(tiny_init(model, &config, group, g, exec));
    const char *wrong = learn(group, g, exec, trace, config.seq);
    tdmi_exec_destroy(exec);
    tdmi_trace_destroy(trace);
    tdmi_graph_destroy(g);
    return wrong;
}

static void a_reduction_ends_between_the_tiles_of_a_kernel(void **state)
{
    (void)state;
    if (tdmi_cpu_isa() == TDMI_ISA_PLAIN)
        skip(); /* plain kernels have no tiles */
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_reduction_ends_between_the_tiles_of_a_kernel)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
