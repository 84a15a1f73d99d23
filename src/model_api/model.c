/* model.c - the builders of the public interface: names with the module's prefix, then the graph's own builders. */
#include "model_api/internal.h"

#include "core/memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

tdm_status tdm_model_create(const char *name, tdm_model **out)
{
    if (name == NULL || name[0] == '\0')
        return tdmi_fail(TDM_ERR_INVALID, "tdm_model_create: a model needs a name");
    tdm_model *m = tdmi_calloc(1, sizeof *m, "model");
    if (m == NULL)
        return TDM_ERR_NO_MEMORY;
    m->graph = tdmi_graph_create(name);
    if (m->graph == NULL) {
        tdmi_free(m);
        return TDM_ERR_NO_MEMORY;
    }
    *out = m;
    return TDM_OK;
}

void tdm_model_destroy(tdm_model *m)
{
    if (m == NULL)
        return;
    for (int i = 0; i < m->parameters; i++)
        tdmi_free((void *)(uintptr_t)m->parameter[i].how.values);
    for (int i = 0; i < m->ops; i++)
        tdmi_free(m->op[i]);
    tdmi_free(m->parameter);
    tdmi_free(m->op);
    tdmi_graph_destroy(m->graph);
    tdmi_free(m);
}

tdm_status tdm_model_status(const tdm_model *m)
{
    if (m->prefix[0] != '\0' && m->graph->status == TDM_OK)
        return tdmi_fail(TDM_ERR_INVALID, "model %s: module %.90s has no pop", m->graph->name, m->prefix);
    return tdmi_graph_status(m->graph);
}

/* ---- names ---- */

typedef struct full_name {
    char text[sizeof((tdm_model *)0)->prefix * 2];
} full_name;

/* Too long a name is the graph builder's to refuse. */
static full_name named(const tdm_model *m, const char *name)
{
    full_name full;
    if (name == NULL)
        name = "";
    snprintf(full.text, sizeof full.text, "%s%.*s", name[0] == '\0' ? "" : m->prefix, (int)sizeof m->prefix - 1, name);
    return full;
}

void tdm_model_push(tdm_model *m, const char *format, ...)
{
    char name[sizeof m->prefix];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(name, sizeof name, format, args);
    va_end(args);
    const size_t used = strlen(m->prefix);
    if (length < 1 || used + (size_t)length + 2 > sizeof m->prefix || m->modules == MODEL_DEPTH) {
        (void)tdmi_graph_fail(m->graph, "module \"%s%s\" in model %s: its name is empty or too long, or it is %d deep", m->prefix,
                              length < 1 ? "" : name, m->graph->name, m->modules + 1);
        return;
    }
    m->module[m->modules++] = used;
    memcpy(m->prefix + used, name, (size_t)length);
    memcpy(m->prefix + used + length, ".", 2);
}

void tdm_model_pop(tdm_model *m)
{
    if (m->modules == 0) {
        (void)tdmi_graph_fail(m->graph, "model %s: a pop without a push", m->graph->name);
        return;
    }
    m->prefix[m->module[--m->modules]] = '\0';
}

/* ---- tensors ---- */

tdm_tensor tdm_model_input(tdm_model *m, const char *name, tdm_dtype dtype, int ndim, const int64_t *dims)
{
    const full_name full = named(m, name);
    if (dtype != TDM_F32 && dtype != TDM_I32)
        return tdmi_graph_fail(m->graph, "input %s is %s; it must be float32 or int32", full.text, tdm_dtype_name(dtype));
    return tdmi_graph_input(m->graph, full.text, dtype, ndim, dims);
}

/* Room for one more element of a growing array. */
static bool grow(tdm_model *m, void **array, int count, int *room, size_t size)
{
    if (count < *room)
        return true;
    const int wanted = *room == 0 ? 16 : 2 * *room;
    void *larger = tdmi_realloc(*array, (size_t)wanted * size, "model");
    if (larger == NULL) {
        (void)tdmi_graph_fail(m->graph, "model %s: no memory for its description", m->graph->name);
        return false;
    }
    *array = larger;
    *room = wanted;
    return true;
}

static float *copy_of_values(tdm_model *m, const char *name, const float *values, size_t count)
{
    if (values == NULL) {
        (void)tdmi_graph_fail(m->graph, "parameter %s: TDM_INIT_VALUES without values", name);
        return NULL;
    }
    float *copy = tdmi_malloc(count * sizeof *copy, "first values");
    if (copy == NULL)
        (void)tdmi_graph_fail(m->graph, "parameter %s: no memory for %zu values", name, count);
    else
        memcpy(copy, values, count * sizeof *copy);
    return copy;
}

tdm_tensor tdm_model_parameter(tdm_model *m, const char *name, int ndim, const int64_t *dims, const tdm_parameter *how)
{
    const full_name full = named(m, name);
    model_parameter p = {.how = how != NULL ? *how : (tdm_parameter){.init = TDM_INIT_ZEROS}};
    const bool random = p.how.init == TDM_INIT_NORMAL || p.how.init == TDM_INIT_UNIFORM;
    if ((unsigned)p.how.init > TDM_INIT_VALUES || (random && !(p.how.scale > 0)))
        return tdmi_graph_fail(m->graph, "parameter %s: first values of kind %d with scale %g; random ones need a scale above 0",
                               full.text, (int)p.how.init, p.how.scale);
    if (p.how.group < 0 || p.how.group >= TDM_PARAMETER_GROUPS)
        return tdmi_graph_fail(m->graph, "parameter %s: group %d; there are 0 to %d", full.text, p.how.group, TDM_PARAMETER_GROUPS - 1);
    p.id = tdmi_graph_parameter(m->graph, full.text, ndim, dims, true);
    void *array = m->parameter;
    if (p.id < 0 || !grow(m, &array, m->parameters, &m->parameter_room, sizeof p))
        return -1;
    m->parameter = array;
    m->graph->tensor[p.id].group = p.how.group;
    p.how.values = p.how.init != TDM_INIT_VALUES
                       ? NULL
                       : copy_of_values(m, full.text, p.how.values, tdmi_shape_count(&m->graph->tensor[p.id].shape));
    m->parameter[m->parameters++] = p;
    return m->graph->status == TDM_OK ? p.id : -1;
}

/* ---- operations ---- */

tdm_tensor tdm_model_embedding(tdm_model *m, const char *name, tdm_tensor tokens, tdm_tensor wte, tdm_tensor wpe)
{
    return tdmi_embedding(m->graph, named(m, name).text, tokens, wte, wpe);
}

tdm_tensor tdm_model_linear(tdm_model *m, const char *name, tdm_tensor x, tdm_tensor w, tdm_tensor b)
{
    return tdmi_linear(m->graph, named(m, name).text, x, w, b);
}

tdm_tensor tdm_model_dense(tdm_model *m, const char *name, tdm_tensor x, int64_t out)
{
    if (m->graph->status != TDM_OK)
        return -1;
    if (x < 0 || x >= m->graph->tensor_count)
        return tdmi_graph_fail(m->graph, "dense %s: tensor %d is not of model %s", named(m, name).text, (int)x, m->graph->name);
    const tdmi_shape *shape = &m->graph->tensor[x].shape;
    const int64_t dims[] = {out, shape->dims[shape->ndim - 1]};
    const tdm_parameter uniform = {.init = TDM_INIT_UNIFORM, .scale = 1 / sqrt((double)dims[1])};
    tdm_model_push(m, "%s", name);
    const tdm_tensor w = tdm_model_parameter(m, "weight", 2, dims, &uniform), b = tdm_model_parameter(m, "bias", 1, dims, &uniform);
    tdm_model_pop(m);
    return tdm_model_linear(m, name, x, w, b);
}

tdm_tensor tdm_model_layernorm(tdm_model *m, const char *name, tdm_tensor x, tdm_tensor w, tdm_tensor b, float eps)
{
    return tdmi_layernorm(m->graph, named(m, name).text, x, w, b, eps);
}

tdm_tensor tdm_model_residual(tdm_model *m, const char *name, tdm_tensor a, tdm_tensor b)
{
    return tdmi_residual(m->graph, named(m, name).text, a, b);
}

tdm_tensor tdm_model_gelu(tdm_model *m, const char *name, tdm_tensor x)
{
    return tdmi_gelu(m->graph, named(m, name).text, x);
}

tdm_tensor tdm_model_attention(tdm_model *m, const char *name, tdm_tensor qkv, int heads)
{
    return tdmi_attention(m->graph, named(m, name).text, qkv, heads);
}

tdm_tensor tdm_model_dropout(tdm_model *m, const char *name, tdm_tensor x, float p)
{
    return tdmi_dropout(m->graph, named(m, name).text, x, p);
}

tdm_tensor tdm_model_cross_entropy(tdm_model *m, const char *name, tdm_tensor logits, tdm_tensor targets)
{
    return tdmi_cross_entropy_part(m->graph, named(m, name).text, logits, targets);
}

tdm_tensor tdm_model_reshape(tdm_model *m, tdm_tensor x, int ndim, const int64_t *dims)
{
    return tdmi_reshape(m->graph, x, ndim, dims);
}

tdm_tensor tdm_model_own_op(tdm_model *m, const char *name, const tdm_own_op *op, int count, const tdm_tensor *in, int ndim,
                            const int64_t *dims)
{
    void *array = m->op;
    if (m->graph->status != TDM_OK || !grow(m, &array, m->ops, &m->op_room, sizeof *m->op))
        return -1;
    m->op = array;
    tdm_own_op *copy = tdmi_malloc(sizeof *copy, "an own op");
    if (copy == NULL)
        return tdmi_graph_fail(m->graph, "model %s: no memory for an op", m->graph->name);
    *copy = *op;
    m->op[m->ops++] = copy;
    return tdmi_custom(m->graph, named(m, name).text, copy, count, in, ndim, dims);
}

/* ---- what comes out ---- */

void tdm_model_loss(tdm_model *m, tdm_tensor loss, float weight)
{
    tdmi_graph *g = m->graph;
    if (g->status != TDM_OK)
        return;
    if (loss < 0 || loss >= g->tensor_count)
        (void)tdmi_graph_fail(g, "model %s: tensor %d is no loss", g->name, (int)loss);
    else if (tdmi_shape_count(&g->tensor[loss].shape) != 1 || g->tensor[loss].shape.ndim != 1 || g->tensor[loss].producer < 0)
        (void)tdmi_graph_fail(g, "model %s: %s cannot be a loss: it must be a computed [1]", g->name, g->tensor[loss].name);
    else if (!(weight > 0))
        (void)tdmi_graph_fail(g, "model %s: loss %s has the weight %g; it must be above 0", g->name, g->tensor[loss].name, (double)weight);
    else if (m->losses == TDMI_LOSSES_MAX)
        (void)tdmi_graph_fail(g, "model %s: %s would be loss %d; at most %d are possible", g->name, g->tensor[loss].name, m->losses + 1,
                              TDMI_LOSSES_MAX);
    else if (g->tensor[loss].role == TDMI_ROLE_OUTPUT)
        (void)tdmi_graph_fail(g, "model %s: %s is a loss or an output already", g->name, g->tensor[loss].name);
    else
        m->loss[m->losses++] = (model_loss){loss, weight};
    tdmi_graph_output(g, loss);
}

void tdm_model_output(tdm_model *m, tdm_tensor x)
{
    tdmi_graph_output(m->graph, x);
}
