/* tiny_run.c - the small GPT: 2 layers, 32 wide, windows of 16 of 61 tokens, drawn by a fixed rule. */
#include "tiny_run.h"

#include "core/cpu.h"
#include "core/memory.h"
#include "data/rng.h"
#include "on_ranks.h"
#include "passes/passes.h"

#include <malloc.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#define ALL_BYTES (sizeof(tiny_run) + TINY_GRADIENTS * sizeof(float)) /* a run and its gradients */

tiny_run *tiny_run_create(int shard, double clip)
{
    tiny_run *run = mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *run = (tiny_run){.gradient = (float *)(void *)(run + 1), .shard = shard, .clip = clip, .bucket_mb = 0.02, .prefetch = 1};
    return run;
}

void tiny_run_free(tiny_run *run)
{
    munmap(run, ALL_BYTES);
}

typedef struct target {
    const tdmi_graph *graph;
    tdmi_exec *exec;
} target;

static tdm_status take(void *arg, const char *name, const float *values, size_t count)
{
    target *to = arg;
    (void)count;
    tdmi_exec_set_parameter(to->exec, tdmi_graph_find(to->graph, name), values);
    return TDM_OK;
}

tdm_status tiny_init(const tdmi_model *model, const tdmi_model_config *config, tdm_group *group, const tdmi_graph *graph, tdmi_exec *exec)
{
    (void)group;
    tdm_status st = model->init(config, 7, NULL, 0, take, &(target){graph, exec});
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

typedef struct tiny_model {
    const tiny_run *run;
    tdmi_graph *graph;
    tdmi_exec *exec;
    tdmi_rng rng;
    tdmi_grad_scaler scaler;
    uint32_t step; /* under way */
    int seq, rank, size;
    int rows; /* windows of a rank's micro-batch */
} tiny_model;

static int windows_of(const tiny_run *run)
{
    return run->windows > 0 ? run->windows : TINY_WINDOWS;
}

static bool target_counts(const tiny_run *run, int window, int i)
{
    return run->counts == TINY_SOME_COUNT ? (window * 7 + i) % 5 != 3 : run->counts == TINY_ALL_COUNT || window % 2 == 0;
}

/* The windows that this rank has, in turns: the same each step, so that they can be learnt. */
static tdm_status feed(void *arg, int micro_batch)
{
    const tiny_model *m = arg;
    int32_t *tokens = tdmi_exec_memory(m->exec, tdmi_graph_find(m->graph, "tokens"));
    int32_t *targets = tdmi_exec_memory(m->exec, tdmi_graph_find(m->graph, "targets"));
    for (int r = 0; r < m->rows; r++)
        for (int i = 0; i < m->seq; i++) {
            const int window = (micro_batch * m->size + m->rank) * m->rows + r;
            const uint32_t place = (uint32_t)(window * (m->run->stride > 0 ? m->run->stride : 1));
            tokens[r * m->seq + i] = token_at(place, (uint32_t)i, 1);
            targets[r * m->seq + i] = target_counts(m->run, window, i) ? token_at(place, (uint32_t)i + 1, 1) : -1;
        }
    if (m->run->overflow && m->rank == 2 && (m->step == 3 || m->step == 4))
        *(float *)tdmi_exec_memory(m->exec, tdmi_graph_find(m->graph, TDMI_LOSS_SCALE)) = INFINITY;
    return TDM_OK;
}

/* What the update took: the average in the buckets' memory, which every rank has, made as long as the step says it is. */
static void keep_gradients(const tiny_model *m, tiny_run *run, double norm)
{
    double squares = 0;
    for (tdmi_id t = 0; t < m->graph->tensor_count; t++)
        if (m->graph->tensor[t].role == TDMI_ROLE_PARAMETER) {
            const size_t count = tdmi_shape_count(&m->graph->tensor[t].shape);
            memcpy(run->gradient + run->gradient_count, tdmi_exec_memory(m->exec, m->graph->tensor[t].gradient), count * sizeof(float));
            run->gradient_count += count;
        }
    for (size_t i = 0; i < run->gradient_count; i++)
        squares += (double)run->gradient[i] * (double)run->gradient[i];
    for (size_t i = 0; i < run->gradient_count; i++)
        run->gradient[i] *= (float)(norm / sqrt(squares));
}

/* A sum over elements, so that ranks may each add their slices. */
static tdm_status hash_piece(void *arg, tdmi_id parameter, size_t first, size_t count, float *values, float *const *moment)
{
    uint64_t *hash = arg;
    (void)moment;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        uint64_t h = ((uint64_t)bits << 32 ^ (uint64_t)parameter << 20 ^ (first + i)) * 0xbf58476d1ce4e5b9ull;
        *hash += (h ^ h >> 29) * 0x94d049bb133111ebull;
    }
    return TDM_OK;
}

/* As rank 0 sees them, or, where no rank has them all, each rank its slices. */
static void hash_weights(tiny_run *run, const tdmi_graph *g, tdmi_exec *exec, int rank)
{
    uint64_t hash = 0;
    if (tdmi_exec_gathers(exec) != NULL)
        (void)tdmi_exec_visit_state(exec, hash_piece, &hash);
    for (tdmi_id t = 0; t < g->tensor_count && rank == 0 && tdmi_exec_gathers(exec) == NULL; t++)
        if (g->tensor[t].role == TDMI_ROLE_PARAMETER)
            (void)hash_piece(&hash, t, 0, tdmi_shape_count(&g->tensor[t].shape), tdmi_exec_memory(exec, t), NULL);
    __atomic_fetch_add(&run->weights, hash, __ATOMIC_SEQ_CST);
}

static const char *steps(tdm_group *group, tiny_run *run, tiny_model *m)
{
    uint64_t allocations = 0;
    size_t heap = 0;
    for (uint32_t step = 1; step <= TINY_STEPS; step++) {
        tdmi_step_result r;
        m->step = step;
        tdmi_rng_seed(&m->rng, step * 8 + (uint32_t)m->rank);
        CHECK_OK(tdmi_exec_step(m->exec, step, m->graph->micro_batches - run->short_by, run->lr > 0 ? run->lr : 1e-2, false, false, &r));
        if (step == TINY_STEPS || !run->late)
            CHECK_OK(tdmi_exec_settle(m->exec));
        if (!run->late)
            CHECK_THAT(tdmi_exec_is_consistent(m->exec));
        CHECK_OK(tdm_barrier(group, NULL)); /* a rank ahead would be inside the next update */
        if (step == 2 && m->rank == 0) { /* warm; one rank asks, as glibc is not ready for several threads at first */
            allocations = tdmi_memory_allocations();
            heap = mallinfo2().uordblks;
        }
        if (m->rank == 0) {
            run->loss[step - 1] = r.loss;
            run->grad_norm[step - 1] = r.grad_norm;
            run->scale[step - 1] = m->scaler.scale;
            run->skipped[step - 1] = r.skipped;
            run->sent[step - 1] = (double)r.sent_nbytes;
            run->plain = (double)r.plain_nbytes;
            run->optimizer_ns += r.optimizer_ns;
            run->comm_exposed_ns += r.comm_exposed_ns;
            if (run->gradient != NULL && step == 1 && run->shard == 0 && run->precision == TDM_F32)
                keep_gradients(m, run, r.grad_norm);
        }
    }
    hash_weights(run, m->graph, m->exec, m->rank);
    if (m->rank == 0) {
        run->allocations = tdmi_memory_allocations() - allocations;
        run->heap_growth = mallinfo2().uordblks > heap ? mallinfo2().uordblks - heap : 0;
        run->shared = tdmi_exec_shares_parameters(m->exec);
        run->gathers = tdmi_exec_gathers(m->exec) != NULL;
        run->gradient_nbytes = m->graph->gradient_nbytes;
        run->slab_nbytes = m->graph->slab_nbytes;
        run->parameter_nbytes = m->graph->parameter_nbytes;
    }
    return NULL;
}

static const char *make(tdm_group *group, const tiny_run *run, tiny_model *m)
{
    const tdmi_model *model = tdmi_model_find("gpt2");
    tdmi_model_config config = {.layers = 2, .width = 32, .heads = 2, .seq = 16, .vocab = 61, .positions = 16,
                                .dropout = (double)run->dropout};
    const int micro_batches = run->micro_batches > 0 ? run->micro_batches : 1;
    m->run = run;
    m->seq = config.seq;
    m->rank = tdm_group_rank(group);
    m->size = tdm_group_size(group);
    m->rows = windows_of(run) / m->size / micro_batches;
    m->graph = model->build(&config, m->rows, TDMI_BUILD_LOSS, true);
    int parts;
    CHECK_OK(tdmi_exec_parts(group, run->shard, &parts));
    tdmi_pipeline_options pipeline = {.train = true, .precision = run->precision, .unfused = run->unfused,
                                      .world_size = m->size, .bucket_cap_mb = run->bucket_mb,
                                      .first_bucket_mb = run->bucket_mb / 4, .micro_batches = micro_batches,
                                      .remat = run->remat, .ready_late = run->late, .compress = run->compress,
                                      .uncounted = run->counts != TINY_ALL_COUNT, .clip = run->clip > 0, .shard = run->shard,
                                      .parts = parts, .prefetch = run->prefetch};
    CHECK_OK(tdmi_pipeline_run(m->graph, &pipeline));
    CHECK_OK(tdmi_rng_init(&m->rng, 1));
    tdmi_grad_scaler_init(&m->scaler);
    tdmi_exec_options options = {
        .group = group,
        .optimizer = {.kind = TDMI_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1},
        .shard = run->shard, .offload = run->offload[0] != '\0' ? run->offload : NULL, .clip = run->clip,
        .scaler = &m->scaler, .isa = tdmi_cpu_isa(), .draw = draw, .draw_arg = &m->rng,
        .draw_nbytes = sizeof m->rng,
        .feed = feed, .feed_arg = m};
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
        wrong = steps(group, arg, &m);
    unmake(&m);
    return wrong;
}

/* Rank 1 may leave the meeting at the end of make() and give up in its step before rank 0 has heard that they met. */
static const char *unless_told(const char *wrong, const char *text)
{
    return strstr(wrong, text) != NULL ? NULL : wrong;
}

const char *tiny_poisoned_body(tdm_group *group, bool fused)
{
    tiny_model m = {0};
    tiny_run run = {.shard = fused, .clip = fused ? 0 : 1, .bucket_mb = 1};
    const char *wrong = make(group, &run, &m);
    if (wrong != NULL) {
        unmake(&m);
        return fused ? unless_told(wrong, "aborted by rank 1: step 9, rank 1: ") : wrong;
    }
    int rank = m.rank;
    tdmi_step_result r;
    if (rank == 1) { /* finite themselves, but their product is not */
        float *b = tdmi_exec_memory(m.exec, tdmi_graph_find(m.graph, "h.1.mlp.c_fc.bias"));
        float *w = tdmi_exec_memory(m.exec, tdmi_graph_find(m.graph, "h.1.mlp.c_proj.weight"));
        for (int i = 0; i < 4 * 32; i++)
            b[i] = w[i] = 1e30f;
    }
    tdm_status st = tdmi_exec_step(m.exec, 9, 1, 1e-2, false, false, &r), others = fused ? TDM_ERR_ABORTED : TDM_ERR_NOT_FINITE;
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

const char *tiny_refused_body(tdm_group *group)
{
    tiny_model m = {0};
    tiny_run run = {.shard = 1, .bucket_mb = 1, .micro_batches = 2}; /* updates go along with the reduction */
    const char *wrong = make(group, &run, &m);
    if (wrong != NULL) {
        unmake(&m);
        return unless_told(wrong, "aborted by rank 1: step 1, rank 1: ");
    }
    tdmi_step_result r;
    for (int k = 0; k <= 3; k += 3) {
        CHECK(tdmi_exec_step(m.exec, 1, k, 1e-2, false, false, &r) == TDM_ERR_INVALID, "%d micro-batches were taken", k);
        CHECK(strstr(tdm_error_text(), "its graph was made for 1 to 2") != NULL, "told: %s", tdm_error_text());
    }
    if (m.rank == 1)
        run.counts = TINY_SOME_COUNT; /* behind the pipeline's back */
    tdm_status st = tdmi_exec_step(m.exec, 1, 2, 1e-2, false, false, &r);
    CHECK(st == (m.rank == 1 ? TDM_ERR_INVALID : TDM_ERR_ABORTED), "rank %d got %s", m.rank, tdm_status_name(st));
    CHECK(strstr(tdm_error_text(), "step 1, rank 1: ") != NULL && strstr(tdm_error_text(), "`uncounted`") != NULL,
          "rank %d was told: %s", m.rank, tdm_error_text());
    unmake(&m);
    return NULL;
}
