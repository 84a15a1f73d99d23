/* step_graph.h - the graphs of a run: the training step, and the forward copy that evaluates or generates. */
#ifndef TDMI_TRAIN_STEP_GRAPH_H
#define TDMI_TRAIN_STEP_GRAPH_H

#include "exec/exec.h"
#include "passes/passes.h"
#include "train/settings.h"

/* What the passes are told about the training step on world_size ranks; parts: tdmi_exec_parts(). */
tdmi_pipeline_options tdmi_step_pipeline(const tdmi_settings *settings, int world_size, int parts);
/* The training step of these settings on world_size ranks, through the whole pipeline. */
tdm_status tdmi_step_graph(const tdmi_settings *settings, int world_size, int parts, tdmi_graph **out);
/* One window, forward only: its loss, or its logits. It gathers its parameters where the executor that has them (NULL: its own
 * will) does so. */
tdm_status tdmi_window_graph(const tdmi_model *model, const tdmi_model_config *config, tdmi_build_kind kind, tdm_dtype precision,
                             const tdmi_exec *parameters_of, tdmi_graph **out);
#endif
