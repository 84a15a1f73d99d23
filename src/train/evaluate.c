/* evaluate.c - held-out windows, one at a time, through a forward graph that shares the training parameters. */
#include "train/evaluate.h"

#include "core/cpu.h"
#include "core/memory.h"
#include "train/step_graph.h"

#include <string.h>

struct tdmi_evaluation {
    const tdmi_windows *windows;
    tdm_group *group;
    tdmi_graph *graph;
    tdmi_exec *exec;
    int32_t *window; /* [seq + 1] */
    int32_t *tokens, *targets;
    int target_count;
    uint64_t count;
    bool together; /* parameters are gathered: all ranks run equally many windows */
    double *loss; /* [count], in shared memory */
};

tdm_status tdmi_evaluation_create(const tdmi_model *model, const tdmi_model_config *config, tdm_dtype precision,
                                  const tdmi_windows *windows, tdm_group *group, tdmi_exec *training, const atomic_int *interrupt, tdmi_evaluation **out)
{
    tdmi_evaluation *e = tdmi_calloc(1, sizeof *e, "evaluation");
    if (e == NULL)
        return TDM_ERR_NO_MEMORY;
    e->windows = windows;
    e->group = group;
    e->together = tdmi_exec_gathers(training) != NULL;
    e->target_count = model->targets(config);
    e->count = windows->windows < TDMI_EVALUATION_WINDOWS ? windows->windows : TDMI_EVALUATION_WINDOWS;
    tdmi_exec_options options = {.parameters_of = training, .isa = tdmi_cpu_isa(), .interrupt = interrupt};
    void *memory = NULL;
    tdm_status st = tdmi_window_graph(model, config, TDMI_BUILD_LOSS, precision, training, &e->graph);
    if (st == TDM_OK)
        st = tdmi_exec_create(e->graph, &options, &e->exec);
    if (st == TDM_OK)
        st = tdm_alloc(group, (size_t)e->count * sizeof *e->loss, &memory);
    if (st == TDM_OK && (e->window = tdmi_malloc(((size_t)windows->seq + 1) * sizeof *e->window, "evaluation")) == NULL)
        st = TDM_ERR_NO_MEMORY;
    if (st != TDM_OK) {
        tdmi_evaluation_destroy(e);
        return st;
    }
    e->loss = memory;
    e->tokens = tdmi_exec_memory(e->exec, tdmi_graph_find(e->graph, "tokens"));
    e->targets = tdmi_exec_memory(e->exec, tdmi_graph_find(e->graph, "targets"));
    *out = e;
    return TDM_OK;
}

void tdmi_evaluation_destroy(tdmi_evaluation *e)
{
    if (e == NULL)
        return;
    tdm_free(e->group, e->loss);
    tdmi_exec_destroy(e->exec);
    tdmi_graph_destroy(e->graph);
    tdmi_free(e->window);
    tdmi_free(e);
}

uint64_t tdmi_evaluation_windows(const tdmi_evaluation *e)
{
    return e->count;
}

static tdm_status one_window(tdmi_evaluation *e, uint64_t i, float *loss)
{
    uint32_t seq = e->windows->seq;
    tdm_status st = tdmi_windows_read(e->windows, i * e->windows->windows / e->count, e->window);
    if (st != TDM_OK)
        return st;
    memcpy(e->tokens, e->window, seq * sizeof *e->tokens);
    memcpy(e->targets, e->window + 1 + seq - (uint32_t)e->target_count, (size_t)e->target_count * sizeof *e->targets);
    return tdmi_exec_forward(e->exec, loss);
}

tdm_status tdmi_evaluation_run(tdmi_evaluation *e, double *loss_out)
{
    uint64_t rank = (uint64_t)tdm_group_rank(e->group), size = (uint64_t)tdm_group_size(e->group);
    memset(e->loss, 0, (size_t)e->count * sizeof *e->loss);
    for (uint64_t i = rank; i < e->count || (e->together && i < e->count + rank); i += size) {
        float loss;
        tdm_status st = one_window(e, i < e->count ? i : 0, &loss);
        if (st != TDM_OK)
            return st;
        if (i < e->count)
            e->loss[i] = (double)loss;
    }
    if (size > 1) { /* every element is some rank's loss plus zeros: exact */
        tdm_status st = tdm_allreduce(e->group, e->loss, e->loss, (size_t)e->count, TDM_F64, TDM_SUM, NULL);
        if (st != TDM_OK)
            return st;
    }
    double sum = 0;
    for (uint64_t i = 0; i < e->count; i++)
        sum += e->loss[i];
    *loss_out = sum / (double)e->count;
    return TDM_OK;
}
