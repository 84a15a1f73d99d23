/* test_evaluate.c - every window once, and a number that does not depend on the ranks. */
#include "train/evaluate.h"

#include "core/cpu.h"
#include "files.h"
#include "on_ranks.h"
#include "small.h"
#include "train/step_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef struct job {
    const char *path, *model;
    int shard;
    double val_fraction;
    double loss;     /* of rank 0 */
    double expected; /* of window after window, on one rank */
    uint64_t windows;
} job;

/* The mean over windows [0, count) spread over all of them, each through a forward graph of its own making. */
static const char *reference(const tdmi_model *model, const tdmi_model_config *config, tdmi_exec *training, const tdmi_windows *windows, uint64_t count, double *out)
{
    tdmi_graph *graph;
    tdmi_exec *exec;
    tdmi_exec_options options = {.parameters_of = training, .isa = tdmi_cpu_isa()};
    CHECK_OK(tdmi_window_graph(model, config, TDMI_BUILD_LOSS, TDM_F32, NULL, &graph));
    CHECK_OK(tdmi_exec_create(graph, &options, &exec));
    int32_t window[9], *tokens = tdmi_exec_memory(exec, tdmi_graph_find(graph, "tokens"));
    int32_t *targets = tdmi_exec_memory(exec, tdmi_graph_find(graph, "targets"));
    int target_count = model->targets(config);
    double sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        float loss;
        CHECK_OK(tdmi_windows_read(windows, i * windows->windows / count, window));
        memcpy(tokens, window, 8 * sizeof *tokens);
        memcpy(targets, window + 9 - target_count, (size_t)target_count * sizeof *targets);
        CHECK_OK(tdmi_exec_forward(exec, &loss));
        sum += (double)loss;
    }
    *out = sum / (double)count;
    tdmi_exec_destroy(exec);
    tdmi_graph_destroy(graph);
    return NULL;
}

static const char *evaluates(tdm_group *group, void *arg)
{
    job *j = arg;
    const tdmi_model *model = tdmi_model_find(j->model);
    tdmi_model_config config = small_config;
    if (strcmp(j->model, "mlp") == 0)
        config.heads = config.positions = 0;
    tdmi_tokens *tokens;
    tdmi_windows train, val;
    CHECK_OK(tdmi_tokens_open(j->path, TDMI_TOKENS_BYTES, 50, &tokens));
    CHECK_OK(tdmi_tokens_split(tokens, j->val_fraction, 8, &train, &val));
    tdmi_pipeline_options pipeline = {.train = true, .world_size = tdm_group_size(group), .bucket_cap_mb = 1, .first_bucket_mb = 1,
                                      .shard = j->shard, .prefetch = 1};
    CHECK_OK(tdmi_exec_parts(group, j->shard, &pipeline.parts));
    tdmi_graph *graph = model->build(&config, 1, TDMI_BUILD_LOSS, true);
    CHECK_OK(tdmi_pipeline_run(graph, &pipeline));
    tdmi_exec *exec;
    tdmi_exec_options options = {.group = group, .optimizer = {.kind = TDMI_OPTIMIZER_SGD}, .shard = j->shard, .isa = tdmi_cpu_isa()};
    CHECK_OK(tdmi_exec_create(graph, &options, &exec));
    CHECK_OK(small_init(model, &config, graph, exec));
    CHECK_OK(tdmi_exec_publish_parameters(exec));
    tdmi_evaluation *evaluation;
    double loss, again;
    CHECK_OK(tdmi_evaluation_create(model, &config, TDM_F32, &val, group, exec, NULL, &evaluation));
    CHECK_OK(tdmi_evaluation_run(evaluation, &loss));
    CHECK_OK(tdmi_evaluation_run(evaluation, &again));
    CHECK(loss == again, "%.17g, then %.17g", loss, again);
    if (tdm_group_rank(group) == 0) {
        j->loss = loss;
        j->windows = tdmi_evaluation_windows(evaluation);
        const char *wrong = tdmi_exec_gathers(exec) != NULL ? NULL : reference(model, &config, exec, &val, j->windows, &j->expected);
        if (wrong != NULL)
            return wrong;
    }
    double losses[8];
    CHECK_OK(tdm_all_gather(group, &loss, losses, 1, TDM_F64, NULL));
    for (int r = 0; r < tdm_group_size(group); r++)
        CHECK(losses[r] == loss, "rank %d has %.17g, another %.17g", r, losses[r], loss);
    CHECK_OK(tdm_barrier(group, NULL));
    tdmi_evaluation_destroy(evaluation);
    tdmi_exec_destroy(exec);
    tdmi_graph_destroy(graph);
    tdmi_tokens_close(tokens);
    return NULL;
}

static const char *data_of(size_t count)
{
    static char name[32];
    uint8_t *bytes = malloc(count);
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)((i * i + i / 7) % 50);
    snprintf(name, sizeof name, "tokens-%zu", count);
    const char *path = files_write(name, bytes, count);
    free(bytes);
    return path;
}

static void assert_same_on(const char *model, size_t tokens, uint64_t windows)
{
    double first = NAN;
    for (int n = 1; n <= 4; n++) {
        job j = {.path = data_of(tokens), .model = model, .shard = 1, .val_fraction = 0.5};
        ranks_run(&(ranks_spec){.n = n, .transport = n == 3 ? "tcp" : "shm"}, evaluates, &j);
        assert_int_equal(j.windows, windows);
        assert_true(j.loss == j.expected);
        if (n > 1)
            assert_true(j.loss == first); /* the same bits */
        first = j.loss;
    }
    for (int n = 2; n <= 4; n++) { /* each rank has a part of the parameters, and no more */
        job j = {.path = data_of(tokens), .model = model, .shard = 3, .val_fraction = 0.5};
        ranks_run(&(ranks_spec){.n = n, .transport = "tcp"}, evaluates, &j);
        assert_int_equal(j.windows, windows);
        assert_true(j.loss == first);
    }
}

static void every_window_counts_once_on_any_number_of_ranks(void **state)
{
    (void)state;
    assert_same_on("gpt2", 2 * (21 * 8 + 1), 21); /* 21 windows: no multiple of 2 or 4 */
    assert_same_on("mlp", 2 * (21 * 8 + 1), 21);
    assert_same_on("gpt2", 2 * (2 * 8 + 3), 2); /* fewer than ranks; an incomplete window is left out */
}

static void of_many_windows_256_are_taken_evenly(void **state)
{
    (void)state;
    assert_same_on("gpt2", 2 * (1000 * 8 + 1), 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_window_counts_once_on_any_number_of_ranks),
        cmocka_unit_test(of_many_windows_256_are_taken_evenly),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end) != 0;
}
