/* small.h - a GPT of a few kilobytes for tests of training's parts. */
#ifndef TESTS_TRAIN_SMALL_H
#define TESTS_TRAIN_SMALL_H

#include "exec/exec.h"
#include "models/model.h"

#include <string.h>

static const tdmi_model_config small_config = {.layers = 1, .width = 16, .heads = 2, .seq = 8, .vocab = 50, .positions = 8};

typedef struct small_target {
    const tdmi_graph *graph;
    tdmi_exec *exec;
} small_target;

static inline tdm_status small_take(void *arg, const char *name, const float *values, size_t count)
{
    small_target *to = arg;
    (void)count;
    tdmi_exec_set_parameter(to->exec, tdmi_graph_find(to->graph, name), values);
    return TDM_OK;
}

/* First weights of seed 3. */
static inline tdm_status small_init(const tdmi_model *model, const tdmi_model_config *config, const tdmi_graph *graph, tdmi_exec *exec)
{
    small_target to = {graph, exec};
    return model->init(config, 3, NULL, 0, small_take, &to);
}

#endif
