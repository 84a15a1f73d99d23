/* parameters.c - a training's parameters by name: first values, reading, writing. Where nodes keep a part each, a read adds up the
 * parts, zeros elsewhere; else all values are at hand. */
#include "model_api/internal.h"

#include "core/memory.h"

#include <string.h>

/* Every rank writes what is its to write; others see it after a publish. */
static void set(tdm_training *t, tdmi_id id, const float *values)
{
    if (t->graph->tensor[id].role == TDMI_ROLE_PARAMETER)
        tdmi_exec_set_parameter(t->exec, id, values);
    else
        memcpy(tdmi_exec_memory(t->exec, id), values, tdmi_shape_nbytes(&t->graph->tensor[id].shape));
}

static const float *draw(const tdm_parameter *how, tdmi_rng *rng, float *room, size_t count)
{
    switch (how->init) {
    case TDM_INIT_VALUES: return how->values;
    case TDM_INIT_NORMAL: tdmi_rng_normal(rng, room, count, 0, how->scale); break;
    case TDM_INIT_UNIFORM: tdmi_rng_uniform(rng, room, count, -how->scale, how->scale); break;
    case TDM_INIT_ZEROS:
    case TDM_INIT_ONES:
        for (size_t i = 0; i < count; i++)
            room[i] = how->init == TDM_INIT_ONES ? 1.0f : 0.0f;
        break;
    }
    return room;
}

tdm_status training_first_values(tdm_training *t)
{
    const tdm_model *m = t->model;
    size_t largest = 0;
    for (int i = 0; i < m->parameters; i++) {
        const size_t count = tdmi_shape_count(&m->graph->tensor[m->parameter[i].id].shape);
        largest = count > largest ? count : largest;
    }
    tdmi_rng rng;
    tdm_status st = tdmi_rng_init(&rng, t->settings.options.seed);
    float *room = st == TDM_OK ? tdmi_malloc(largest * sizeof *room, "first values") : NULL;
    if (st == TDM_OK && room == NULL)
        st = TDM_ERR_NO_MEMORY;
    for (int i = 0; i < m->parameters && st == TDM_OK; i++) {
        const tdmi_tensor *p = &m->graph->tensor[m->parameter[i].id];
        set(t, tdmi_graph_find(t->graph, p->name), draw(&m->parameter[i].how, &rng, room, tdmi_shape_count(&p->shape)));
    }
    tdmi_free(room);
    return st;
}

static tdm_status find(const tdm_training *t, const char *name, size_t count, tdmi_id *out)
{
    const tdm_model *m = t->model;
    for (int i = 0; i < m->parameters; i++) {
        const tdmi_tensor *p = &m->graph->tensor[m->parameter[i].id];
        if (strcmp(p->name, name) != 0)
            continue;
        if (tdmi_shape_count(&p->shape) != count)
            return tdmi_fail(TDM_ERR_INVALID, "parameter %s has %zu elements, not %zu", name, tdmi_shape_count(&p->shape), count);
        *out = tdmi_graph_find(t->graph, name);
        return TDM_OK;
    }
    return tdmi_fail(TDM_ERR_INVALID, "model %s has no parameter %s", m->graph->name, name);
}

typedef struct part {
    tdmi_id parameter;
    float *values;
} part;

static tdm_status copy_part(void *arg, tdmi_id parameter, size_t first, size_t count, float *values, float *const *moment)
{
    const part *to = arg;
    (void)moment;
    if (parameter == to->parameter)
        memcpy(to->values + first, values, count * sizeof *values);
    return TDM_OK;
}

static tdm_status read_parts(tdm_training *t, tdmi_id id, float *values, size_t count)
{
    memset(values, 0, count * sizeof *values);
    tdm_status st = tdmi_exec_visit_state(t->exec, copy_part, &(part){id, values});
    return st == TDM_OK ? tdm_allreduce(t->group, values, values, count, TDM_F32, TDM_SUM, NULL) : st;
}

tdm_status tdm_training_read(tdm_training *t, const char *name, float *values, size_t count)
{
    tdmi_id id = -1;
    tdm_status st = find(t, name, count, &id);
    if (st == TDM_OK)
        st = tdmi_exec_settle(t->exec);
    if (st != TDM_OK)
        return st;
    const float *from = tdmi_exec_memory(t->exec, id);
    if (from == NULL)
        return read_parts(t, id, values, count);
    memcpy(values, from, count * sizeof *values);
    return TDM_OK;
}

tdm_status tdm_training_write(tdm_training *t, const char *name, const float *values, size_t count)
{
    tdmi_id id = -1;
    tdm_status st = find(t, name, count, &id);
    if (st == TDM_OK)
        st = tdmi_exec_settle(t->exec);
    if (st == TDM_OK && tdm_group_size(t->group) > 1) /* peers may still read the shared copy */
        st = tdm_barrier(t->group, NULL);
    if (st != TDM_OK)
        return st;
    set(t, id, values);
    t->kept_version++;
    return tdmi_exec_publish_parameters(t->exec);
}
