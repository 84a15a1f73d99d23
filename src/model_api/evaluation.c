/* evaluation.c - a second model, forward only, on the training's parameters: trained ones are the same memory, those that are not
 * trained are copied when they have changed. */
#include "model_api/internal.h"

#include "core/cpu.h"
#include "core/memory.h"
#include "graph/text.h"
#include "train/agree.h"

#include <string.h>

struct tdm_evaluation {
    const tdm_model *model;
    tdm_training *training;
    tdmi_graph *graph;
    tdmi_exec *exec;
    input_ranges ranges;
    uint64_t kept_version;
};

/* What training does not train is an input here too. */
static tdm_status match_parameters(const tdm_model *m, const tdm_training *training, tdmi_graph *g)
{
    const tdmi_graph *trained = training->graph;
    for (int i = 0; i < m->parameters; i++) {
        tdmi_tensor *t = &g->tensor[m->parameter[i].id];
        const tdmi_id other = tdmi_graph_find(trained, t->name);
        char here[TDMI_SHAPE_TEXT_MAX], there[TDMI_SHAPE_TEXT_MAX];
        if (other < 0)
            return tdmi_fail(TDM_ERR_INVALID, "evaluation %s: the training of %s has no parameter %s", g->name, trained->name, t->name);
        if (!tdmi_shape_equal(&trained->tensor[other].shape, &t->shape))
            return tdmi_fail(TDM_ERR_INVALID, "evaluation %s: parameter %s is %s, in the training of %s it is %s", g->name, t->name,
                             tdmi_shape_text(&t->shape, here), trained->name, tdmi_shape_text(&trained->tensor[other].shape, there));
        t->role = trained->tensor[other].role;
    }
    for (int i = 0; i < g->node_count; i++)
        if (g->node[i].op == TDMI_OP_DRAW_MASK)
            return tdmi_fail(TDM_ERR_INVALID, "evaluation %s: %s is a dropout; build the model without it (p 0) to evaluate", g->name,
                             g->node[i].label);
    return TDM_OK;
}

static tdm_status build(tdm_evaluation *e)
{
    tdm_training *training = e->training;
    const tdmi_pipeline_options passes = {.world_size = 1, .precision = training->settings.precision,
                                          .gather_as = tdmi_exec_gathers(training->exec)};
    const tdmi_exec_options options = {.parameters_of = training->exec, .isa = tdmi_cpu_isa()};
    tdm_status st = model_graph(e->model, false, &e->graph);
    if (st == TDM_OK)
        st = match_parameters(e->model, training, e->graph);
    if (st == TDM_OK)
        st = tdmi_pipeline_run(e->graph, &passes);
    if (st == TDM_OK)
        st = tdmi_exec_create(e->graph, &options, &e->exec);
    return st == TDM_OK ? input_ranges_find(e->graph, e->exec, &e->ranges) : st;
}

tdm_status tdm_evaluation_create(const tdm_model *model, tdm_training *training, tdm_evaluation **out)
{
    tdm_evaluation *e = tdmi_calloc(1, sizeof *e, "evaluation");
    if (e == NULL)
        return TDM_ERR_NO_MEMORY;
    e->model = model;
    e->training = training;
    e->kept_version = UINT64_MAX;
    bool everywhere;
    tdm_status st = tdmi_agree(training->group, build(e), &everywhere);
    if (st == TDM_OK)
        *out = e;
    else
        tdm_evaluation_destroy(e);
    return st;
}

void tdm_evaluation_destroy(tdm_evaluation *e)
{
    if (e == NULL)
        return;
    tdmi_exec_destroy(e->exec);
    tdmi_graph_destroy(e->graph);
    tdmi_free(e->ranges.range);
    tdmi_free(e);
}

void *tdm_evaluation_input(tdm_evaluation *e, const char *name)
{
    return memory_by_name(e->graph, e->exec, name, TDMI_ROLE_INPUT);
}

const void *tdm_evaluation_output(tdm_evaluation *e, const char *name)
{
    return memory_by_name(e->graph, e->exec, name, TDMI_ROLE_OUTPUT);
}

static void copy_untrained(tdm_evaluation *e)
{
    for (int i = 0; i < e->model->parameters && e->kept_version != e->training->kept_version; i++) {
        const char *name = e->model->graph->tensor[e->model->parameter[i].id].name;
        const tdmi_id to = tdmi_graph_find(e->graph, name), from = tdmi_graph_find(e->training->graph, name);
        if (e->graph->tensor[to].role == TDMI_ROLE_INPUT)
            memcpy(tdmi_exec_memory(e->exec, to), tdmi_exec_memory(e->training->exec, from), tdmi_shape_nbytes(&e->graph->tensor[to].shape));
    }
    e->kept_version = e->training->kept_version;
}

tdm_status tdm_evaluation_run(tdm_evaluation *e, double *loss_out)
{
    float loss = 0;
    tdm_status st = input_ranges_check(&e->ranges);
    if (st == TDM_OK)
        st = tdmi_exec_settle(e->training->exec);
    if (st != TDM_OK)
        return st;
    copy_untrained(e);
    st = tdmi_exec_forward(e->exec, &loss);
    if (st == TDM_OK && loss_out != NULL)
        *loss_out = (double)loss;
    return st;
}
