/* bucket.c - parameters and gradients into buckets, in the order gradients become ready, and where each bucket may start.
 *
 *     node     ... 40 linear_backward_weight (last gradient of bucket 0)   41 linear_backward_input (reads a weight of it) ...
 *     start                                                                    ^ here: owners overwrite slices from now on */
#include "passes/bucket.h"

#include "core/memory.h"
#include "ddp/plan.h"

#define LINE ((size_t)64) /* bytes of a cache line */

/* A parameter of several parts begins where all of them end at multiples of the quantum. */
static size_t begin_of(const tdmi_graph *g, const bucket_item *item, size_t end, int world_size)
{
    const bool whole = item->count == tdmi_shape_count(&g->tensor[item->parameter].shape);
    const size_t align = whole ? LINE / tdm_dtype_size(g->gradient_type) : bucket_quantum(world_size);
    return (end + align - 1) / align * align;
}

/* Gives each parameter and its gradient (all versions of a sum) their place, and fills the buckets. */
static void lay_out(tdmi_graph *g, const bucket_item *items, int count, const int *bucket_of, int world_size)
{
    const size_t size = tdm_dtype_size(g->gradient_type);
    size_t end = 0;
    for (int i = 0; i < count; i++) {
        tdmi_tensor *p = &g->tensor[items[i].parameter];
        tdmi_bucket *b = &g->bucket[bucket_of[i]];
        const bool opens = i == 0 || bucket_of[i] != bucket_of[i - 1];
        if (opens) {
            end = 0;
            b->joined = items[i].within > 0;
        }
        if (items[i].within == 0) {
            end = begin_of(g, &items[i], end, world_size);
            p->bucket = bucket_of[i];
            p->offset = end;
        }
        end += items[i].count;
        b->parameters += opens || items[i].within == 0;
        b->used += items[i].count;
        b->count = tdmi_plan_padded(end, size, world_size);
    }
    for (int t = 0; t < g->tensor_count; t++) {
        if (g->tensor[t].role == TDMI_ROLE_GRADIENT || g->tensor[t].role == TDMI_ROLE_COPY) {
            g->tensor[t].bucket = g->tensor[g->tensor[t].parameter].bucket;
            g->tensor[t].offset = g->tensor[g->tensor[t].parameter].offset;
        }
    }
}

static void hold_back(const tdmi_graph *g, tdmi_id t, int node, int *after)
{
    for (int b = g->tensor[t].bucket; b <= tdmi_graph_last_bucket(g, t); b++)
        after[b] = node;
}

/* after[b]: the node behind which bucket b starts. Buckets start in order, as all ranks agree on one. */
static void find_starts(const tdmi_graph *g, int *after)
{
    for (int b = 0; b < g->bucket_count; b++)
        after[b] = -1;
    for (int i = 0; i < g->node_count; i++) {
        const tdmi_node *n = &g->node[i];
        for (int k = 0; k < n->in_count; k++)
            if (n->in[k] >= 0 && (g->tensor[n->in[k]].role == TDMI_ROLE_PARAMETER || g->tensor[n->in[k]].role == TDMI_ROLE_COPY))
                hold_back(g, n->in[k], i, after);
        for (int k = 0; k < n->out_count; k++)
            if (n->out[k] >= 0 && g->tensor[n->out[k]].role == TDMI_ROLE_GRADIENT)
                hold_back(g, n->out[k], i, after);
    }
    for (int b = 1; b < g->bucket_count; b++)
        if (after[b] < after[b - 1])
            after[b] = after[b - 1];
}

static tdm_status insert_starts(tdmi_graph *g)
{
    const size_t total = (size_t)g->node_count + (size_t)g->bucket_count;
    int *after = tdmi_malloc((size_t)g->bucket_count * sizeof *after, "bucket pass");
    tdmi_node *nodes = tdmi_malloc(total * sizeof *nodes, "bucket pass");
    tdm_status st = TDM_ERR_NO_MEMORY;
    if (after != NULL && nodes != NULL) {
        int count = 0, next = 0;
        find_starts(g, after);
        for (int i = 0; i < g->node_count; i++) {
            nodes[count++] = g->node[i];
            for (; next < g->bucket_count && after[next] == i; next++)
                nodes[count++] = (tdmi_node){.op = TDMI_OP_BUCKET_START, .phase = TDMI_PHASE_COMMUNICATION,
                                             .attr.bucket = next, .label = "bucket"};
        }
        st = tdmi_graph_set_nodes(g, nodes, count);
    }
    tdmi_free(nodes);
    tdmi_free(after);
    return st;
}

static tdm_status fill(tdmi_graph *g, const tdmi_pipeline_options *options, const bucket_item *items, int count)
{
    int *bucket_of = tdmi_malloc((size_t)count * sizeof *bucket_of, "bucket pass"), buckets = 0;
    tdm_status st = bucket_of == NULL ? TDM_ERR_NO_MEMORY : bucket_plan(g, options, items, count, bucket_of, &buckets);
    if (st == TDM_OK) {
        g->bucket = tdmi_calloc((size_t)buckets, sizeof *g->bucket, "graph");
        st = g->bucket == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
    }
    if (st == TDM_OK) {
        g->bucket_count = buckets;
        lay_out(g, items, count, bucket_of, options->world_size);
        bucket_number_units(g, items, count, bucket_of);
    }
    tdmi_free(bucket_of);
    return st == TDM_OK ? insert_starts(g) : st;
}

tdm_status tdmi_pass_bucket(tdmi_graph *g, const tdmi_pipeline_options *options)
{
    if (options->world_size < 1)
        return tdmi_fail(TDM_ERR_INVALID, "buckets for %d ranks: at least 1", options->world_size);
    size_t parameters = 0;
    for (int t = 0; t < g->tensor_count; t++) {
        parameters += g->tensor[t].role == TDMI_ROLE_PARAMETER;
        if (g->tensor[t].role == TDMI_ROLE_PARAMETER && g->tensor[t].gradient < 0)
            return tdmi_fail(TDM_ERR_INVALID, "parameter %s has no gradient: run autodiff before bucket", g->tensor[t].name);
    }
    if (parameters == 0 || g->bucket_count > 0)
        return tdmi_fail(TDM_ERR_INVALID, "graph %s has %s", g->name, parameters == 0 ? "no parameters" : "buckets already");
    if (options->bucket_auto && !(options->cost.flops_per_s > 0 && options->cost.bytes_per_s > 0))
        return tdmi_fail(TDM_ERR_INVALID, "buckets cannot be planned without costs of nodes and reductions");
    if (options->bucket_auto && options->shard == 3 && options->parts > 1)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "stage 3 over %d nodes gathers whole blocks, so its buckets cannot be cut for the "
                         "fastest reduction (--bucket-mb auto); give a size", options->parts);
    bucket_item *items = NULL;
    int count = 0;
    tdm_status st = bucket_items(g, options, &items, &count);
    if (st == TDM_OK)
        st = fill(g, options, items, count);
    tdmi_free(items);
    return st;
}
