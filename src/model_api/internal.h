/* internal.h - what the files of model_api/ share: the model as it was written, and its training. */
#ifndef TDMI_MODEL_API_INTERNAL_H
#define TDMI_MODEL_API_INTERNAL_H

#include "data/rng.h"
#include "exec/exec.h"
#include "graph/graph.h"
#include "train/settings.h"

#include <tandem/model.h>

#define MODEL_DEPTH 16

typedef struct model_parameter {
    tdmi_id id;
    tdm_parameter how; /* values: own copy, or NULL */
} model_parameter;

typedef struct model_loss {
    tdmi_id id;
    float weight;
} model_loss;

struct tdm_model {
    tdmi_graph *graph; /* forward; no loss yet */
    char prefix[96];
    size_t module[MODEL_DEPTH]; /* where in the prefix each open module begins */
    int modules;
    model_parameter *parameter;
    int parameters, parameter_room;
    model_loss loss[TDMI_LOSSES_MAX];
    int losses;
    tdm_own_op **op; /* copies, that nodes point to */
    int ops, op_room;
};

/* What the numbers of an int32 input are numbers of. */
typedef struct input_range {
    const int32_t *values;
    size_t count;
    int32_t min, max;
    const char *name, *reader; /* borrowed from the graph */
} input_range;

typedef struct input_ranges {
    input_range *range;
    int count;
} input_ranges;

struct tdm_training {
    const tdm_model *model;
    tdm_group *group;
    tdmi_settings settings;
    tdmi_grad_scaler scaler;
    tdmi_rng mask_rng;
    tdmi_graph *graph;
    tdmi_exec *exec;
    input_ranges ranges;
    int64_t step; /* done so far */
    uint64_t kept_version; /* changes with the values of parameters that are not trained */
    tdm_training_feed feed; /* of the step under way */
    void *feed_arg;
    double loss_sum[TDMI_LOSSES_MAX]; /* over its micro-batches */
    int micro_batches;                /* of the last step */
};

/* prepare.c: a copy of the model's graph with its loss; training false: without one it may be. */
tdm_status model_graph(const tdm_model *model, bool training, tdmi_graph **out);
/* Parameters that are not trained become inputs: frozen ones and, where it is allowed, those that the loss does not depend on. */
tdm_status model_keep_untrained(const tdm_model *model, bool allow_unused, tdmi_graph *g);
/* parameters.c: first values of all; collective. */
tdm_status training_first_values(tdm_training *training);
/* inputs.c */
tdm_status input_ranges_find(const tdmi_graph *g, tdmi_exec *exec, input_ranges *out);
tdm_status input_ranges_check(const input_ranges *ranges);
/* The memory of the tensor of this name and role, or NULL. */
void *memory_by_name(const tdmi_graph *g, tdmi_exec *exec, const char *name, tdmi_role role);

#endif
