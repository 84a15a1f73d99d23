/* shard.c - the end of a step: wait for the reduced buckets, hear the verdict of all ranks, update, and let readers on.
 *
 *     clip, or shard 0   BUCKET_WAIT 0..n-1   VERDICT   UPDATE 0..n-1   PARAMETERS_READY 0..n-1
 *     else               BUCKET_WAIT 0..n-1   VERDICT                   PARAMETERS_READY 0..n-1   (updated while reducing) */
#include "passes/passes.h"

static void append(tdmi_graph *g, tdmi_op op, tdmi_phase phase)
{
    for (int b = 0; b < g->bucket_count; b++) {
        const tdmi_node n = {.op = op, .phase = phase, .attr.bucket = b, .label = "bucket"};
        (void)tdmi_graph_add_node(g, &n);
    }
}

tdm_status tdmi_pass_shard(tdmi_graph *g, const tdmi_pipeline_options *options)
{
    if (options->shard != 0 && options->shard != 1)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "sharding stage %d does not exist: 0 (every rank updates all parameters) or 1 "
                         "(each rank its slices)", options->shard);
    if (g->bucket_count == 0)
        return tdmi_fail(TDM_ERR_INVALID, "graph %s has no buckets: run bucket before shard", g->name);
    append(g, TDMI_OP_BUCKET_WAIT, TDMI_PHASE_COMMUNICATION);
    const tdmi_node verdict = {.op = TDMI_OP_VERDICT, .phase = TDMI_PHASE_COMMUNICATION, .attr.bucket = -1, .in_count = 1,
                               .in = {g->loss}, .label = "verdict"};
    (void)tdmi_graph_add_node(g, &verdict);
    if (options->clip || options->shard == 0)
        append(g, TDMI_OP_UPDATE, TDMI_PHASE_OPTIMIZER);
    append(g, TDMI_OP_PARAMETERS_READY, TDMI_PHASE_COMMUNICATION);
    return tdmi_graph_status(g);
}
