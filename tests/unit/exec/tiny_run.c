/* tiny_run.c - the small GPT: 2 layers, 32 wide, windows of 16 of 61 tokens, drawn by a fixed rule. */
#include "tiny_run.h"

#include "core/cpu.h"
#include "core/memory.h"
#include "data/rng.h"
#include "on_ranks.h"
#include "passes/passes.h"

#include <malloc.h>
#include <string.h>
#include <sys/mman.h>

tiny_run *tiny_run_create(int shard, double clip)
{
    tiny_run *run = mmap(NULL, sizeof *run, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *run = (tiny_run){.shard = shard, .clip = clip, .bucket_mb = 0.02};
    return run;
}

void tiny_run_free(tiny_run *run)
{
    munmap(run, sizeof *run);
}

typedef struct target {
    const tdmi_graph *graph;
    tdmi_exec *exec;
} target;

static tdm_status take(void *arg, const char *name, const float *values, size_t count)
{
    target *to = arg;
    memcpy(tdmi_exec_memory(to->exec, tdmi_graph_find(to->graph, name)), values, count * sizeof *values);
    return TDM_OK;
}

tdm_status tiny_init(const tdmi_model *model, const tdmi_model_config *config, tdm_group *group, const tdmi_graph *graph, tdmi_exec *exec)
{
    tdm_status st = TDM_OK;
    if (!tdmi_exec_shares_parameters(exec) || tdm_group_local_rank(group) == 0)
        st = model->init(config, 7, take, &(target){graph, exec});
    return st == TDM_OK ? tdmi_exec_publish_parameters(exec) : st;
}

static void draw(void *arg, uint8_t *mask, size_t count, float p)
{
    tdmi_rng_bernoulli(arg, mask, count, 1 - (double)p);
}

static int32_t token_at(uint32_t window, uint32_t i, uint32_t step)
{
    uint32_t x = (step * 131 + window) * 2654435761u + i * 40503u;
    return (int32_t)((x ^ (x >> 15)) % 61);
}

static void feed(int32_t *tokens, int32_t *targets, int rank, int size, uint32_t step, int seq)
{
    int rows = TINY_WINDOWS / size;
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < seq; i++) {
            uint32_t window = (uint32_t)(rank * rows + r);
            tokens[r * seq + i] = token_at(window, (uint32_t)i, step);
            targets[r * seq + i] = token_at(window, (uint32_t)i + 1, step);
        }
}

static uint64_t hash_weights(const tdmi_graph *g, tdmi_exec *exec)
{
    uint64_t hash = 1469598103934665603ull;
    for (tdmi_id t = 0; t < g->tensor_count; t++)
        if (g->tensor[t].role == TDMI_ROLE_PARAMETER) {
            const unsigned char *bytes = tdmi_exec_memory(exec, t);
            for (size_t i = 0; i < tdmi_shape_nbytes(&g->tensor[t].shape); i++)
                hash = (hash ^ bytes[i]) * 1099511628211ull;
        }
    return hash;
}

static const char *steps(tdm_group *group, tiny_run *run, const tdmi_graph *g, tdmi_exec *exec, tdmi_rng *rng, int seq)
{
    int rank = tdm_group_rank(group), size = tdm_group_size(group);
    uint64_t allocations = 0;
    size_t heap = 0;
    for (uint32_t step = 1; step <= TINY_STEPS; step++) {
        tdmi_step_result r;
        tdmi_rng_seed(rng, step * 8 + (uint32_t)rank);
        feed(tdmi_exec_memory(exec, tdmi_graph_find(g, "tokens")), tdmi_exec_memory(exec, tdmi_graph_find(g, "targets")), rank,
             size, 1, seq); /* the same each step: it can be learnt */
        CHECK_OK(tdmi_exec_step(exec, step, 1e-2, false, false, &r));
        CHECK_THAT(tdmi_exec_is_consistent(exec));
        CHECK_OK(tdm_barrier(group, NULL)); /* a rank ahead would be inside the next update */
        if (step == 2) { /* warm */
            allocations = tdmi_memory_allocations();
            heap = mallinfo2().uordblks;
        }
        if (rank == 0) {
            run->loss[step - 1] = r.loss;
            run->grad_norm[step - 1] = r.grad_norm;
            run->optimizer_ns += r.optimizer_ns;
            run->comm_exposed_ns += r.comm_exposed_ns;
        }
    }
    if (rank == 0) {
        run->allocations = tdmi_memory_allocations() - allocations;
        run->heap_growth = mallinfo2().uordblks > heap ? mallinfo2().uordblks - heap : 0;
        run->weights = hash_weights(g, exec);
        run->shared = tdmi_exec_shares_parameters(exec);
        run->gradient_nbytes = g->gradient_nbytes;
    }
    return NULL;
}

typedef struct tiny_model {
    tdmi_graph *graph;
    tdmi_exec *exec;
    tdmi_rng rng;
    int seq;
} tiny_model;

static const char *make(tdm_group *group, const tiny_run *run, tiny_model *m)
{
    const tdmi_model *model = tdmi_model_find("gpt2");
    tdmi_model_config config = {.layers = 2, .width = 32, .heads = 2, .seq = 16, .vocab = 61, .positions = 16,
                                .dropout = (double)run->dropout};
    int size = tdm_group_size(group);
    m->seq = config.seq;
    m->graph = model->build(&config, TINY_WINDOWS / size, TDMI_BUILD_LOSS, true);
    tdmi_pipeline_options pipeline = {.train = true, .world_size = size, .bucket_cap_mb = run->bucket_mb,
                                      .first_bucket_mb = run->bucket_mb / 4, .clip = run->clip > 0, .shard = run->shard};
    CHECK_OK(tdmi_pipeline_run(m->graph, &pipeline));
    CHECK_OK(tdmi_rng_init(&m->rng, 1));
    tdmi_exec_options options = {
        .group = group,
        .optimizer = {.kind = TDMI_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1},
        .shard = run->shard, .clip = run->clip, .isa = tdmi_cpu_isa(), .draw = draw, .draw_arg = &m->rng};
    CHECK_OK(tdmi_exec_create(m->graph, &options, &m->exec));
    CHECK_OK(tiny_init(model, &config, group, m->graph, m->exec));
    return NULL;
}

static void unmake(tiny_model *m)
{
    tdmi_exec_destroy(m->exec);
    tdmi_graph_destroy(m->graph);
}

const char *tiny_run_body(tdm_group *group, void *arg)
{
    tiny_model m = {0};
    const char *wrong = make(group, arg, &m);
    if (wrong == NULL)
        wrong = steps(group, arg, m.graph, m.exec, &m.rng, m.seq);
    unmake(&m);
    return wrong;
}

const char *tiny_poisoned_body(tdm_group *group, bool fused)
{
    tiny_model m = {0};
    tiny_run run = {.shard = fused, .clip = fused ? 0 : 1, .bucket_mb = 1};
    const char *wrong = make(group, &run, &m);
    if (wrong != NULL)
        return wrong;
    int rank = tdm_group_rank(group);
    tdmi_step_result r;
    feed(tdmi_exec_memory(m.exec, tdmi_graph_find(m.graph, "tokens")), tdmi_exec_memory(m.exec, tdmi_graph_find(m.graph, "targets")),
         rank, 2, 1, m.seq);
    if (rank == 1) { /* finite themselves, but their product is not */
        float *b = tdmi_exec_memory(m.exec, tdmi_graph_find(m.graph, "h.1.mlp.c_fc.bias"));
        float *w = tdmi_exec_memory(m.exec, tdmi_graph_find(m.graph, "h.1.mlp.c_proj.weight"));
        for (int i = 0; i < 4 * 32; i++)
            b[i] = w[i] = 1e30f;
    }
    tdm_status st = tdmi_exec_step(m.exec, 9, 1e-2, false, false, &r), others = fused ? TDM_ERR_ABORTED : TDM_ERR_NOT_FINITE;
    CHECK(st == (rank == 1 ? TDM_ERR_NOT_FINITE : others), "rank %d got %s: %s", rank, tdm_status_name(st), tdm_error_text());
    CHECK(r.decided == !fused, "rank %d: decided is %d", rank, r.decided);
    CHECK(rank == 0 || strncmp(tdm_error_text(), "step 9, rank 1: ", 16) == 0, "rank 1 was told: %s", tdm_error_text());
    if (!fused && rank == 0)
        CHECK(strstr(tdm_error_text(), "step 9: the loss of another rank") != NULL, "rank 0 was told: %s", tdm_error_text());
    else
        CHECK(strstr(tdm_error_text(), "step 9, rank 1") != NULL && strstr(tdm_error_text(), "h.1.mlp.c_proj linear") != NULL,
              "rank %d was told: %s", rank, tdm_error_text());
    unmake(&m);
    return NULL;
}
