/* weights.c - reading parameters by name. */
#include "train/weights.h"

#include <stdio.h>

#define SHAPE_TEXT 200

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

/* "[128, 32]". */
static const char *shape_text(int ndim, const uint64_t *shape, char out[SHAPE_TEXT])
{
    size_t used = (size_t)snprintf(out, SHAPE_TEXT, "[");
    for (int i = 0; i < ndim && used < SHAPE_TEXT; i++)
        used += (size_t)snprintf(out + used, SHAPE_TEXT - used, "%s%llu", i > 0 ? ", " : "", (unsigned long long)shape[i]);
    if (used < SHAPE_TEXT)
        snprintf(out + used, SHAPE_TEXT - used, "]");
    return out;
}

typedef struct source {
    const tdmi_safetensors *file;
    const char *path;
    const tdmi_model *model;
    const tdmi_graph *graph;
} source;

static tdm_status read_piece(void *arg, tdmi_id parameter, size_t first, size_t count, float *values, float *const *moment)
{
    const source *s = arg;
    const tdmi_tensor *to = &s->graph->tensor[parameter];
    const tdmi_file_tensor *from = tdmi_weights_find(s->file, to->name);
    uint64_t shape[2];
    char texts[2][SHAPE_TEXT];
    (void)moment;
    if (from == NULL)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s: there is no tensor %s; it holds another model", s->path, to->name);
    tdmi_weights_file_shape(s->model, to, shape);
    if (from->ndim != to->shape.ndim || from->shape[0] != shape[0] || (from->ndim == 2 && from->shape[1] != shape[1]))
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s: tensor %s is %s, the model needs %s; give the sizes it was made with", s->path,
                         to->name, shape_text(from->ndim, from->shape, texts[0]), shape_text(to->shape.ndim, shape, texts[1]));
    if (to->shape.ndim == 2 && s->model->transposed(to->name))
        return tdmi_safetensors_read_transposed(s->file, from, first, count, values);
    return tdmi_safetensors_read(s->file, from, first, count, values);
}

tdm_status tdmi_weights_read(const tdmi_safetensors *file, const char *path, const tdmi_model *model, const tdmi_graph *graph,
                             tdmi_exec *exec)
{
    return tdmi_exec_visit_parameters(exec, read_piece, &(source){file, path, model, graph});
}
