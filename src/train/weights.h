/* weights.h - parameters of a graph out of safetensors files, under the names and shapes that files use. */
#ifndef TDMI_TRAIN_WEIGHTS_H
#define TDMI_TRAIN_WEIGHTS_H

#include "checkpoint/safetensors.h"
#include "exec/exec.h"
#include "models/model.h"

/* The shape a file has for this parameter: that of the graph, or turned around where the model keeps it so. */
void tdmi_weights_file_shape(const tdmi_model *model, const tdmi_tensor *parameter, uint64_t shape[2]);
/* The tensor of a parameter in a file, under its name or "transformer." and its name; NULL if it is in neither. */
const tdmi_file_tensor *tdmi_weights_find(const tdmi_safetensors *file, const char *parameter);
/* Reads every parameter of the graph that this rank has to fill. Tensors that the graph does not have are left alone (files of Hugging Face hold masks
 * and a second name of the tied head).
 * Errors  TDM_ERR_BAD_FILE the parameter that is missing, or of another shape, with both shapes */
tdm_status tdmi_weights_read(const tdmi_safetensors *file, const char *path, const tdmi_model *model, const tdmi_graph *graph,
                             tdmi_exec *exec);

#endif
