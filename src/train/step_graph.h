/* step_graph.h - the graphs of a run: the training step, and the forward copy that evaluates or generates. */
#ifndef TDMI_TRAIN_STEP_GRAPH_H
#define TDMI_TRAIN_STEP_GRAPH_H

#include "passes/passes.h"
#include "train/settings.h"

/* What the passes are told about the training step on world_size ranks. */
tdmi_pipeline_options tdmi_step_pipeline(const tdmi_settings *settings, int world_size);
/* The training step of these settings on world_size ranks, through the whole pipeline. */
tdm_status tdmi_step_graph(const tdmi_settings *settings, int world_size, tdmi_graph **out);
/* One window, forward only: its loss, or its logits. */
tdm_status tdmi_window_graph(const tdmi_model *model, const tdmi_model_config *config, tdmi_build_kind kind, tdm_dtype precision,
                             tdmi_graph **out);
#endif
