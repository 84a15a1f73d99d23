/* step_graph.c - builds a model's graph and sends it through the passes; what passes and executor are told, in one place. */
#include "train/step_graph.h"

#include "core/cpu.h"
#include "exec/forecast.h"
#include "train/costs.h"

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

void tdmi_step_place(tdmi_settings *s, int world_size, int local_size, int parts)
{
    s->world_size = world_size;
    s->local_size = local_size;
    s->parts = parts;
    s->ready_late = local_size < world_size; /* on one node nothing travels */
    s->cost = tdmi_costs_of_node();
}

tdm_status tdmi_step_meet(tdmi_settings *s, tdm_group *group)
{
    const int world_size = tdm_group_size(group);
    int32_t local_size = tdm_group_local_size(group);
    int parts;
    tdm_status st = tdmi_exec_parts(group, s->shard, &parts);
    if (st == TDM_OK && world_size > 1) /* nodes may be of different sizes: all plan alike, for the smallest */
        st = tdm_allreduce(group, &local_size, &local_size, 1, TDM_I32, TDM_MIN, NULL);
    if (st != TDM_OK)
        return st;
    tdmi_step_place(s, world_size, local_size, parts);
    return s->bucket_auto ? tdmi_costs_of_group(group, &s->cost) : TDM_OK; /* else nothing is chosen by what links cost */
}

/* What --explain prints and what a limit counts are the same. */
static tdm_status memory_of(void *arg, const tdmi_graph *g, size_t *nbytes_out)
{
    const tdmi_settings *s = arg;
    const tdmi_exec_options executor = tdmi_step_executor(s, NULL, NULL, NULL);
    tdmi_memory_forecast f;
    tdm_status st = tdmi_exec_forecast(g, &executor, s->world_size, s->local_size, &f);
    if (st == TDM_OK)
        *nbytes_out = tdmi_forecast_of_process(&f);
    return st;
}

tdmi_pipeline_options tdmi_step_pipeline(const tdmi_settings *s)
{
    return (tdmi_pipeline_options){.train = true,
                                   .precision = s->precision,
                                   .world_size = s->world_size,
                                   .bucket_cap_mb = s->bucket_mb,
                                   .first_bucket_mb = s->first_bucket_mb,
                                   .bucket_list_mb = s->bucket_list_mb,
                                   .bucket_list_count = s->bucket_list_count,
                                   .bucket_auto = s->bucket_auto,
                                   .cost = s->cost,
                                   .remat = s->remat,
                                   .ready_late = s->ready_late,
                                   .memory_nbytes = s->options.memory,
                                   .memory_of = memory_of,
                                   .memory_arg = (void *)(uintptr_t)s,
                                   .micro_batches = s->micro_batches,
                                   .compress = s->compress,
                                   .clip = s->clip > 0,
                                   .shard = s->shard,
                                   .parts = s->parts,
                                   .prefetch = s->prefetch};
}

static void draw_mask(void *arg, uint8_t *mask, size_t count, float p)
{
    tdmi_rng_bernoulli(arg, mask, count, 1 - (double)p);
}

tdmi_exec_options tdmi_step_executor(const tdmi_settings *s, tdm_group *group, tdmi_grad_scaler *scaler, tdmi_rng *mask_rng)
{
    return (tdmi_exec_options){.group = group,
                               .optimizer = s->optimizer,
                               .shard = s->shard,
                               .offload = s->options.offload,
                               .clip = s->clip,
                               .scaler = s->precision == TDM_F16 ? scaler : NULL,
                               .isa = (int)tdmi_cpu_isa(),
                               .draw = draw_mask,
                               .draw_arg = mask_rng,
                               .draw_nbytes = sizeof *mask_rng};
}

tdm_status tdmi_step_graph(const tdmi_settings *s, tdmi_graph **out)
{
    tdmi_pipeline_options options = tdmi_step_pipeline(s);
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
