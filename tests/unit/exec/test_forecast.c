/* test_forecast.c - the memory that ranks take (proportional set size, all together) is what was said beforehand. */
#include "exec/forecast.h"

#include "core/cpu.h"
#include "ddp/reducer.h"
#include "on_ranks.h"
#include "passes/passes.h"
#include "tiny_run.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MIB (1024.0 * 1024.0)
#define PROGRAM_MIB 12.0 /* of each rank, at most: code that oneDNN makes, libraries, tables, what lies beside large blocks */
#define SLACK_PART 0.02

typedef struct job {
    int shard;
    double clip;
    tdm_dtype precision;
    int nodes;
    int remat;
    tdm_codec codec;
} job;

static double own_pss(void)
{
    char line[128];
    double kib = 0, more;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "Pss: %lf kB", &more) == 1)
            kib += more;
    if (f != NULL)
        fclose(f);
    return kib * 1024;
}

static const char *body(tdm_group *group, void *arg)
{
    const job *j = arg;
    const tdmi_model *model = tdmi_model_find("gpt2");
    const tdmi_model_config config = {.layers = 4, .width = 256, .heads = 4, .seq = 64, .vocab = 5000, .positions = 64};
    const int size = tdm_group_size(group);
    int parts;
    CHECK_OK(tdmi_exec_parts(group, j->shard, &parts));
    tdmi_graph *g = model->build(&config, 2, TDMI_BUILD_LOSS, true);
    const tdmi_pipeline_options pipeline = {.train = true, .world_size = size, .bucket_cap_mb = 2, .first_bucket_mb = 0.5,
                                            .clip = j->clip > 0, .shard = j->shard, .parts = parts, .prefetch = 1, .precision = j->precision,
                                            .remat = j->remat, .compress = {.codec = j->codec, .warmup = 1}};
    CHECK_OK(tdmi_pipeline_run(g, &pipeline));
    const tdmi_exec_options options = {.group = group, .clip = j->clip, .shard = j->shard, .isa = tdmi_cpu_isa(),
                                       .optimizer = {.kind = TDMI_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}};
    tdmi_memory_forecast f;
    CHECK_OK(tdmi_exec_forecast(g, &options, size, size / j->nodes, &f));
    CHECK_OK(tdm_barrier(group, NULL));
    const double before = own_pss();
    CHECK_OK(tdm_barrier(group, NULL));
    tdmi_exec *exec;
    tdmi_step_result r;
    CHECK_OK(tdmi_exec_create(g, &options, &exec));
    CHECK_OK(tiny_init(model, &config, group, g, exec));
    for (int step = 1; step <= 2; step++)
        CHECK_OK(tdmi_exec_step(exec, step, 1, 1e-3, false, false, &r));
    CHECK_OK(tdm_barrier(group, NULL));
    double taken = own_pss() - before;
    CHECK_OK(tdm_allreduce(group, &taken, &taken, 1, TDM_F64, TDM_SUM, NULL));
    const double said = (double)tdmi_forecast_of_node(&f, size / j->nodes) * j->nodes;
    CHECK(taken >= said * (1 - SLACK_PART) && taken <= said * (1 + SLACK_PART) + PROGRAM_MIB * MIB * size, "stage %d, clip %g, %s: %.1f MiB were forecast for all ranks, %.1f MiB are taken", j->shard, j->clip,
          tdm_dtype_name(j->precision), said / MIB, taken / MIB);
    tdmi_exec_destroy(exec);
    tdmi_graph_destroy(g);
    return NULL;
}

/* Sanitizers have memory of their own for each byte. */
#if defined(__has_feature)
#define IS_SANITIZED (__has_feature(thread_sanitizer) || __has_feature(address_sanitizer))
#else
#define IS_SANITIZED 0
#endif

static void ranks_of_a_node_take_what_was_said(void **state)
{
    (void)state;
    if (IS_SANITIZED)
        skip();
    const job jobs[] = {{0, 0, TDM_F32, 1, 0, TDM_CODEC_NONE}, {1, 0, TDM_F32, 1, 0, TDM_CODEC_NONE}, {2, 0, TDM_F32, 1, 0, TDM_CODEC_NONE},
                        {2, 1, TDM_F32, 1, 0, TDM_CODEC_NONE}, {1, 0, TDM_BF16, 1, 0, TDM_CODEC_NONE},
                         {2, 0, TDM_F32, 1, 1, TDM_CODEC_NONE}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .mode = RANKS_PROCESSES, .deadline_s = 60}, body, (void *)(uintptr_t)&jobs[i]);
}

/* Error feedback, and moments sliced over a node, or whole. */
static void compressed_ranks_take_what_was_said(void **state)
{
    (void)state;
    if (IS_SANITIZED)
        skip();
    const job jobs[] = {{1, 1, TDM_F32, 1, 0, TDM_CODEC_POWERSGD}, {0, 1, TDM_F32, 1, 0, TDM_CODEC_BF16}, {1, 0, TDM_F32, 1, 0, TDM_CODEC_ONEBIT}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .mode = RANKS_PROCESSES, .deadline_s = 60}, body, (void *)(uintptr_t)&jobs[i]);
    const job nodes = {1, 1, TDM_F32, 2, 0, TDM_CODEC_POWERSGD};
    ranks_run(&(ranks_spec){.n = 4, .transport = "nodes", .mode = RANKS_PROCESSES, .deadline_s = 60}, body, (void *)(uintptr_t)&nodes);
}

/* Small against the slack above: by the sizes themselves. */
static const char *codec_body(tdm_group *group, void *arg)
{
    (void)group, (void)arg;
    enum { ROWS = 600, COLUMNS = 200, ELEMENTS = ROWS * COLUMNS, RANKS = 2, RANK = 4 };
    const tdm_part matrix = {0, ELEMENTS, ROWS};
    size_t kept, scratch;
    CHECK_OK(tdmi_codec_memory(&(tdm_compression){.codec = TDM_CODEC_POWERSGD, .rank = RANK}, &matrix, 1, ELEMENTS, RANKS, &kept, &scratch));
    CHECK_THAT(kept == (ELEMENTS + RANK * COLUMNS) * sizeof(float) && scratch == RANK * (ROWS + COLUMNS) * sizeof(float));
    CHECK_OK(tdmi_codec_memory(&(tdm_compression){.codec = TDM_CODEC_BF16}, &matrix, 1, ELEMENTS, RANKS, &kept, &scratch));
    CHECK_THAT(kept == ELEMENTS * sizeof(float) && scratch == ELEMENTS * sizeof(uint16_t));
    CHECK_OK(tdmi_codec_memory(&(tdm_compression){.codec = TDM_CODEC_ONEBIT}, &matrix, 1, ELEMENTS, RANKS, &kept, &scratch));
    CHECK_THAT(kept > ELEMENTS * sizeof(float) * 4 / 3 && kept < ELEMENTS * sizeof(float) * 5 / 3 && scratch > ELEMENTS / 8);
    CHECK_OK(tdmi_codec_memory(&(tdm_compression){.codec = TDM_CODEC_NONE}, &matrix, 1, ELEMENTS, RANKS, &kept, &scratch));
    CHECK_THAT(kept == 0 && scratch == 0);
    return NULL;
}

static void codecs_keep_errors_and_factors(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, codec_body, NULL);
}

static void ranks_of_two_nodes_take_what_was_said(void **state)
{
    (void)state;
    if (IS_SANITIZED)
        skip();
    const job jobs[] = {{1, 1, TDM_F32, 2, 0, TDM_CODEC_NONE}, {3, 1, TDM_F32, 2, 0, TDM_CODEC_NONE}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        ranks_run(&(ranks_spec){.n = 4, .transport = "nodes", .mode = RANKS_PROCESSES, .deadline_s = 60}, body, (void *)(uintptr_t)&jobs[i]);
}

int main(void)
{
    mallopt(M_PERTURB, 0); /* as meson asks for, it would touch what nobody uses */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_a_node_take_what_was_said),
        cmocka_unit_test(compressed_ranks_take_what_was_said),
        cmocka_unit_test(codecs_keep_errors_and_factors),
        cmocka_unit_test(ranks_of_two_nodes_take_what_was_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
