/* test_late.c - parameters that travel beside the next step's forward are the same parameters; and they do travel beside it. */
#include "tiny_run.h"

#include "core/cpu.h"
#include "on_ranks.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tiny_run run_on(int n, const char *transport, tiny_run ask)
{
    tiny_run *run = tiny_run_create(ask.shard, ask.clip), copy;
    const double bucket_mb = run->bucket_mb;
    *run = ask;
    run->bucket_mb = bucket_mb;
    ranks_run(&(ranks_spec){.n = n, .transport = transport, .mode = RANKS_PROCESSES}, tiny_run_body, run);
    copy = *run;
    tiny_run_free(run);
    return copy;
}

static void assert_same_bits(int n, const char *transport, tiny_run ask)
{
    ask.late = false;
    const tiny_run met = run_on(n, transport, ask);
    ask.late = true;
    const tiny_run late = run_on(n, transport, ask);
    assert_true(met.loss[TINY_STEPS - 1] < met.loss[0]);
    assert_memory_equal(met.loss, late.loss, sizeof met.loss);
    assert_memory_equal(met.grad_norm, late.grad_norm, sizeof met.grad_norm);
    assert_int_equal(met.weights, late.weights);
    assert_true(late.allocations <= met.allocations + 4); /* over tcp more calls may be under way at once than in the first steps */
}

/* One copy a node, one a rank, nodes of two ranks. */
static void late_parameters_have_the_same_bits(void **state)
{
    (void)state;
    static const char *const ways[] = {"shm", "tcp", "nodes"};
    for (int w = 0; w < 3; w++)
        for (int clip = 0; clip < 2; clip++) {
            assert_same_bits(w == 2 ? 4 : 2, ways[w], (tiny_run){.shard = 1, .clip = clip * 0.5});
            assert_same_bits(w == 2 ? 4 : 2, ways[w], (tiny_run){.shard = 2, .clip = clip * 0.5, .dropout = 0.1f, .remat = 1});
        }
    assert_same_bits(2, "tcp", (tiny_run){.shard = 0, .clip = 0.5});
    assert_same_bits(1, "shm", (tiny_run){.shard = 1, .clip = 0.5});
}

static void they_go_with_micro_batches_and_halves(void **state)
{
    (void)state;
    assert_same_bits(2, "tcp", (tiny_run){.shard = 1, .micro_batches = 2});
    assert_same_bits(2, "tcp", (tiny_run){.shard = 1, .clip = 0.5, .precision = TDM_BF16});
    assert_same_bits(4, "nodes", (tiny_run){.shard = 1, .clip = 0.5, .precision = TDM_F16});
}

static void they_go_with_compression(void **state)
{
    (void)state;
    const tdm_compression powersgd = {.codec = TDM_CODEC_POWERSGD, .rank = 2, .seed = 5}, onebit = {.codec = TDM_CODEC_ONEBIT, .warmup = 3};
    for (int shard = 0; shard < 2; shard++) {
        assert_same_bits(2, "tcp", (tiny_run){.shard = shard, .clip = 1, .compress = powersgd});
        assert_same_bits(4, "nodes", (tiny_run){.shard = shard, .compress = onebit});
    }
}

/* ---- beside computation ---- */

#define WINDOWS 64
#define STEPS 40
#define EVENTS 8192

static tdm_status tokens(void *arg, int micro_batch)
{
    (void)micro_batch;
    int32_t **in = arg;
    for (int i = 0; i < WINDOWS * 16; i++)
        in[0][i] = i % 61;
    for (int i = 0; i < WINDOWS; i++)
        in[1][i] = i % 61;
    return TDM_OK;
}

/* Whether a gather was under way when a later forward node than the first began. */
static bool travelled_beside(const tdmi_trace *trace, int64_t step)
{
    const size_t count = tdmi_trace_count(trace, NULL);
    for (size_t i = 0; i < count; i++) {
        const tdmi_trace_event gather = tdmi_trace_get(trace, i);
        if (gather.step != step || strstr(gather.name, "all-gather") == NULL)
            continue;
        for (size_t k = 0; k < count; k++) {
            const tdmi_trace_event node = tdmi_trace_get(trace, k);
            if (node.step == step && node.track == TDMI_TRACK_COMPUTE && strstr(node.name, "backward") == NULL &&
                gather.begin_ns < node.begin_ns && node.begin_ns < gather.end_ns)
                return true;
        }
    }
    return false;
}

static const char *learns(tdm_group *group, void *arg)
{
    (void)arg;
    const tdmi_model *model = tdmi_model_find("mlp");
    const tdmi_model_config config = {.layers = 3, .width = 512, .seq = 16, .vocab = 61};
    const tdmi_pipeline_options pipeline = {.train = true, .world_size = tdm_group_size(group), .bucket_cap_mb = 0.5, .first_bucket_mb = 0.5,
                                            .clip = true, .shard = 1, .ready_late = true};
    tdmi_graph *g = model->build(&config, WINDOWS, TDMI_BUILD_LOSS, true);
    tdmi_exec *exec = NULL;
    tdmi_trace *trace = NULL;
    int32_t *in[2];
    CHECK_OK(tdmi_pipeline_run(g, &pipeline));
    CHECK_OK(tdmi_trace_create(tdm_group_rank(group), EVENTS, &trace));
    const tdmi_exec_options options = {.group = group, .clip = 1, .shard = 1, .isa = tdmi_cpu_isa(), .trace = trace, .feed = tokens, .feed_arg = in,
                                       .optimizer = {.kind = TDMI_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}};
    CHECK_OK(tdmi_exec_create(g, &options, &exec));
    in[0] = tdmi_exec_memory(exec, tdmi_graph_find(g, "tokens"));
    in[1] = tdmi_exec_memory(exec, tdmi_graph_find(g, "targets"));
    CHECK_OK(tiny_init(model, &config, group, g, exec));
    int32_t seen = 0;
    for (int step = 1; step <= STEPS && !seen; step++) {
        tdmi_step_result r;
        CHECK_OK(tdmi_exec_step(exec, step, 1, 1e-3, false, true, &r));
        CHECK(r.comm_exposed_ns <= r.comm_ns, "exposed %lld ns of %lld", (long long)r.comm_exposed_ns, (long long)r.comm_ns);
        seen = travelled_beside(trace, step);
        CHECK_OK(tdm_allreduce(group, &seen, &seen, 1, TDM_I32, TDM_MAX, NULL));
    }
    CHECK_OK(tdmi_exec_settle(exec));
    tdmi_exec_destroy(exec);
    tdmi_trace_destroy(trace);
    tdmi_graph_destroy(g);
    return seen ? NULL : "no parameters travelled beside the next step";
}

static void parameters_travel_beside_the_next_step(void **state)
{
    (void)state;
    if (tdmi_cpu_isa() == TDMI_ISA_PLAIN)
        skip(); /* a step would take seconds */
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp"}, learns, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_parameters_have_the_same_bits),
        cmocka_unit_test(they_go_with_micro_batches_and_halves),
        cmocka_unit_test(they_go_with_compression),
        cmocka_unit_test(parameters_travel_beside_the_next_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
