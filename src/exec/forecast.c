/* forecast.c - the sizes that bind.c, sharing.c, gather.c and the reducer will ask for. */
#include "exec/forecast.h"

#include "core/memory.h"
#include "exec/internal.h"

static tdm_status raise(const tdmi_kernel_io *io, int isa, const char *label, size_t *workspace)
{
    tdmi_bound_kernel bound;
    tdm_status st = tdmi_kernel_bind(io, isa, &bound);
    if (st != TDM_OK)
        return tdmi_fail_while(st, "preparing node %s", label);
    if (bound.workspace_nbytes > *workspace)
        *workspace = bound.workspace_nbytes;
    tdmi_kernel_unbind(&bound);
    return TDM_OK;
}

static tdm_status workspace_of(const tdmi_graph *g, int isa, size_t *workspace)
{
    tdm_status st = TDM_OK;
    for (int n = 0; n < g->node_count && st == TDM_OK; n++) {
        if (!exec_is_compute(g->node[n].op))
            continue;
        tdmi_kernel_io io = exec_io_of(g, &g->node[n]);
        st = raise(&io, isa, g->node[n].label, workspace);
        if (st == TDM_OK && g->micro_batches > 1 && exec_io_adds(g, &g->node[n], &io))
            st = raise(&io, isa, g->node[n].label, workspace);
    }
    return st;
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

/* What codecs keep, of all buckets, and the scratch of the one that travels. */
static tdm_status codecs_of(const tdmi_graph *g, int size, size_t *kept, size_t *scratch)
{
    if (!g->compressed || size == 1)
        return TDM_OK;
    tdmi_piece *pieces = tdmi_malloc((size_t)TDMI_PIECES_MAX(g) * sizeof *pieces, "forecast");
    tdm_part *parts = tdmi_malloc((size_t)TDMI_PIECES_MAX(g) * sizeof *parts, "forecast");
    tdm_status st = pieces == NULL || parts == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
    for (int b = 0; b < g->bucket_count && st == TDM_OK; b++) {
        const int count = tdmi_graph_pieces(g, b, pieces);
        size_t own_kept = 0, own_scratch = 0;
        for (int i = 0; i < count; i++)
            parts[i] = (tdm_part){pieces[i].first, pieces[i].count, pieces[i].rows};
        st = tdmi_codec_memory(&g->bucket[b].compress, parts, count, g->bucket[b].used, size, &own_kept, &own_scratch);
        *kept += own_kept;
        *scratch = own_scratch > *scratch ? own_scratch : *scratch;
    }
    tdmi_free(parts);
    tdmi_free(pieces);
    return st;
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
        .activations = g->slab_nbytes,
        .staging = size > local_size ? 3 * largest * sizeof(float) : 0,
    };
    tdm_status st = codecs_of(g, size, &out->codecs, &out->travelling);
    return st == TDM_OK ? workspace_of(g, options->isa, &out->workspace) : st;
}

static size_t of_copy(const tdmi_memory_forecast *f)
{
    return f->parameters + f->copies + f->gathered;
}

size_t tdmi_forecast_of_rank(const tdmi_memory_forecast *f)
{
    return (f->one_copy ? 0 : of_copy(f)) + f->gradients + f->kept + f->state + f->codecs + f->travelling + f->activations + f->workspace + f->staging;
}

size_t tdmi_forecast_of_process(const tdmi_memory_forecast *f)
{
    return (f->one_copy ? of_copy(f) : 0) + tdmi_forecast_of_rank(f);
}

size_t tdmi_forecast_of_node(const tdmi_memory_forecast *f, int local_size)
{
    return (f->one_copy ? of_copy(f) : 0) + (size_t)local_size * tdmi_forecast_of_rank(f);
}
