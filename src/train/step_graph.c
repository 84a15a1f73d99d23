/* step_graph.c - builds a model's graph and sends it through the passes. */
#include "train/step_graph.h"

static tdm_status finish(tdmi_graph *g, const tdmi_pipeline_options *options, tdmi_graph **out)
{
    if (g == NULL)
        return TDM_ERR_NO_MEMORY;
    tdm_status st = tdmi_graph_status(g);
    if (st == TDM_OK)
        st = tdmi_pipeline_run(g, options);
    if (st != TDM_OK) {
        tdmi_graph_destroy(g);
        return st;
    }
    *out = g;
    return TDM_OK;
}

/* Parameters with their copies, the optimizer's state, and what a codec keeps of errors, of a rank. */
static size_t beside(const tdmi_settings *s, int world_size, int parts)
{
    const bool compressed = s->compress.codec != TDM_CODEC_NONE && world_size > 1, onebit = s->compress.codec == TDM_CODEC_ONEBIT;
    const size_t copies = s->precision == TDM_F32 ? 0 : 2, nodes = parts > 1 ? (size_t)parts : 1;
    const size_t share = s->shard > 0 && !(compressed && onebit) ? (size_t)world_size : 1;
    const size_t moments = s->options.offload != NULL ? 0 : (size_t)tdmi_optimizer_moments(&s->optimizer);
    return s->parameters * (sizeof(float) + copies) / nodes + s->parameters * sizeof(float) * moments / share +
           (compressed ? s->parameters * sizeof(float) : 0);
}

tdmi_pipeline_options tdmi_step_pipeline(const tdmi_settings *s, int world_size, int parts)
{
    return (tdmi_pipeline_options){.train = true,
                                   .precision = s->precision,
                                   .world_size = world_size,
                                   .bucket_cap_mb = s->bucket_mb,
                                   .first_bucket_mb = s->first_bucket_mb,
                                   .bucket_list_mb = s->bucket_list_mb,
                                   .bucket_list_count = s->bucket_list_count,
                                   .bucket_auto = s->bucket_auto,
                                   .cost = s->cost,
                                   .remat = s->remat,
                                   .ready_late = s->ready_late,
                                   .memory_nbytes = s->options.memory,
                                   .memory_beside_nbytes = beside(s, world_size, parts),
                                   .micro_batches = s->micro_batches,
                                   .compress = s->compress,
                                   .clip = s->clip > 0,
                                   .shard = s->shard,
                                   .parts = parts,
                                   .prefetch = s->prefetch};
}

tdm_status tdmi_step_graph(const tdmi_settings *s, int world_size, int parts, tdmi_graph **out)
{
    tdmi_pipeline_options options = tdmi_step_pipeline(s, world_size, parts);
    return finish(s->model->build(&s->config, s->batch, TDMI_BUILD_LOSS, true), &options, out);
}

tdm_status tdmi_window_graph(const tdmi_model *model, const tdmi_model_config *config, tdmi_build_kind kind, tdm_dtype precision,
                             const tdmi_exec *parameters_of, tdmi_graph **out)
{
    tdmi_pipeline_options options = {.train = false, .world_size = 1, .precision = precision};
    if (parameters_of != NULL)
        options.gather_as = tdmi_exec_gathers(parameters_of);
    return finish(model->build(config, 1, kind, false), &options, out);
}
