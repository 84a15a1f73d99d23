/* forecast.c - the sizes that bind.c, sharing.c, gather.c and the reducer will ask for. */
#include "exec/forecast.h"

#include "exec/internal.h"

static tdm_status workspace_of(const tdmi_graph *g, int isa, size_t *workspace)
{
    for (int n = 0; n < g->node_count; n++) {
        if (!exec_is_compute(g->node[n].op))
            continue;
        const tdmi_kernel_io io = exec_io_of(g, &g->node[n]);
        tdmi_bound_kernel bound;
        tdm_status st = tdmi_kernel_bind(&io, isa, &bound);
        if (st != TDM_OK)
            return tdmi_fail_while(st, "preparing node %s", g->node[n].label);
        if (bound.workspace_nbytes > *workspace)
            *workspace = bound.workspace_nbytes;
        tdmi_kernel_unbind(&bound);
    }
    return TDM_OK;
}

static bool has_copies(const tdmi_graph *g)
{
    for (tdmi_id t = 0; t < g->tensor_count; t++)
        if (g->tensor[t].role == TDMI_ROLE_COPY)
            return true;
    return false;
}

/* Into how many slices the optimizer's state is divided: over all ranks; where all get whole buckets, over those of a node. */
static size_t slices(const tdmi_graph *g, int shard, int size, int local_size)
{
    if (g->compressed)
        return shard > 0 && !exec_has_onebit(g) ? (size_t)local_size : 1;
    return shard > 0 ? (size_t)size : 1;
}

static size_t feedback_of(const tdmi_graph *g, int size)
{
    size_t elements = 0;
    for (int b = 0; b < g->bucket_count && size > 1; b++)
        elements += g->bucket[b].compress.codec == TDM_CODEC_NONE     ? 0
                    : g->bucket[b].compress.codec == TDM_CODEC_ONEBIT ? g->bucket[b].count + g->bucket[b].count / (size_t)size + g->bucket[b].count / 32
                                                                      : g->bucket[b].count;
    return elements * sizeof(float);
}

tdm_status tdmi_exec_forecast(const tdmi_graph *g, const tdmi_exec_options *options, int size, int local_size,
                              tdmi_memory_forecast *out)
{
    const size_t ranks = slices(g, options->shard, size, local_size), parts = g->parameter_nbytes > 0 ? (size_t)g->parts : 1;
    size_t elements = 0, largest = 0;
    for (int b = 0; b < g->bucket_count; b++) {
        elements += g->bucket[b].count;
        largest = g->bucket[b].count > largest ? g->bucket[b].count : largest;
    }
    *out = (tdmi_memory_forecast){
        .one_copy = options->shard > 0 && local_size > 1,
        .parameters = elements / parts * sizeof(float),
        .copies = has_copies(g) ? elements / parts * sizeof(uint16_t) : 0,
        .gathered = g->parameter_nbytes,
        .gradients = g->gradient_nbytes,
        .kept = g->slices_kept ? elements / ranks * tdm_dtype_size(g->gradient_type) : 0,
        .state = options->offload != NULL ? 0 : elements / ranks * sizeof(float) * (size_t)tdmi_optimizer_moments(&options->optimizer),
        .feedback = feedback_of(g, size),
        .activations = g->slab_nbytes,
        .staging = size > local_size ? 3 * largest * sizeof(float) : 0,
    };
    return workspace_of(g, options->isa, &out->workspace);
}

static size_t of_copy(const tdmi_memory_forecast *f)
{
    return f->parameters + f->copies + f->gathered;
}

size_t tdmi_forecast_of_rank(const tdmi_memory_forecast *f)
{
    return (f->one_copy ? 0 : of_copy(f)) + f->gradients + f->kept + f->state + f->feedback + f->activations + f->workspace + f->staging;
}

size_t tdmi_forecast_of_node(const tdmi_memory_forecast *f, int local_size)
{
    return (f->one_copy ? of_copy(f) : 0) + (size_t)local_size * tdmi_forecast_of_rank(f);
}
