/* weights.c - reading parameters by name. */
#include "train/weights.h"

#include <stdio.h>

void tdmi_weights_file_shape(const tdmi_model *model, const tdmi_tensor *parameter, uint64_t shape[2])
{
    bool turned = parameter->shape.ndim == 2 && model->transposed(parameter->name);
    shape[0] = (uint64_t)parameter->shape.dims[turned ? 1 : 0];
    shape[1] = parameter->shape.ndim == 2 ? (uint64_t)parameter->shape.dims[turned ? 0 : 1] : 1;
}

const tdmi_file_tensor *tdmi_weights_find(const tdmi_safetensors *file, const char *parameter)
{
    char name[160];
    const tdmi_file_tensor *found = tdmi_safetensors_find(file, parameter);
    if (found != NULL)
        return found;
    snprintf(name, sizeof name, "transformer.%s", parameter);
    return tdmi_safetensors_find(file, name);
}

static tdm_status read_one(const tdmi_safetensors *file, const char *path, const tdmi_model *model, const tdmi_tensor *to,
                           float *values)
{
    const tdmi_file_tensor *from = tdmi_weights_find(file, to->name);
    uint64_t shape[2];
    if (from == NULL)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s: there is no tensor %s; it holds another model", path, to->name);
    tdmi_weights_file_shape(model, to, shape);
    if (from->ndim != to->shape.ndim || from->shape[0] != shape[0] || (from->ndim == 2 && from->shape[1] != shape[1]))
        return tdmi_fail(TDM_ERR_BAD_FILE,
                         "%s: tensor %s is %llu x %llu (%d dimensions), the model needs %llu x %llu; give the sizes it was made with",
                         path, to->name, (unsigned long long)(from->ndim > 0 ? from->shape[0] : 1),
                         (unsigned long long)(from->ndim > 1 ? from->shape[1] : 1), from->ndim, (unsigned long long)shape[0],
                         (unsigned long long)shape[1]);
    if (to->shape.ndim == 2 && model->transposed(to->name))
        return tdmi_safetensors_read_transposed(file, from, 0, tdmi_shape_count(&to->shape), values);
    return tdmi_safetensors_read(file, from, 0, tdmi_shape_count(&to->shape), values);
}

tdm_status tdmi_weights_read(const tdmi_safetensors *file, const char *path, const tdmi_model *model, const tdmi_graph *graph,
                             tdmi_exec *exec)
{
    for (tdmi_id t = 0; t < graph->tensor_count; t++) {
        if (graph->tensor[t].role != TDMI_ROLE_PARAMETER)
            continue;
        tdm_status st = read_one(file, path, model, &graph->tensor[t], tdmi_exec_memory(exec, t));
        if (st != TDM_OK)
            return st;
    }
    return TDM_OK;
}
