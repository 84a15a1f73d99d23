/* step_graph.h - the graphs of a run: the training step, and the forward copy that evaluates or generates; and what the step's executor is told.
 * `tandem train` and the models of users (model_api/) have it from here. */
#ifndef TDMI_TRAIN_STEP_GRAPH_H
#define TDMI_TRAIN_STEP_GRAPH_H

#include "data/rng.h"
#include "exec/exec.h"
#include "passes/passes.h"
#include "train/settings.h"

/* Where the ranks are, parts as tdmi_exec_parts() says, and what follows from it; what nodes cost here. */
void tdmi_step_place(tdmi_settings *settings, int world_size, int local_size, int parts);
/* What settings learn of the group that will run them: the ranks' places, and what links cost. Collective. */
tdm_status tdmi_step_meet(tdmi_settings *settings, tdm_group *group);
/* What the passes are told about the training step; borrows the settings. */
tdmi_pipeline_options tdmi_step_pipeline(const tdmi_settings *settings);
/* What the executor is: feed, trace, interrupt and groups are the caller's to add. mask_rng draws the dropout masks. */
tdmi_exec_options tdmi_step_executor(const tdmi_settings *settings, tdm_group *group, tdmi_grad_scaler *scaler, tdmi_rng *mask_rng);
/* The training step of these settings, through the whole pipeline. */
tdm_status tdmi_step_graph(const tdmi_settings *settings, tdmi_graph **out);
/* One window, forward only: its loss, or its logits. It gathers its parameters where the executor that has them (NULL: its own
 * will) does so. */
tdm_status tdmi_window_graph(const tdmi_model *model, const tdmi_model_config *config, tdmi_build_kind kind, tdm_dtype precision,
                             const tdmi_exec *parameters_of, tdmi_graph **out);
#endif
