/* bucket.c - parameters and gradients into buckets, in the order gradients become ready, and where each bucket may start.
 *
 *     node     ... 40 linear_backward_weight (last gradient of bucket 0)   41 linear_backward_input (reads a weight of it) ...
 *     start                                                                    ^ here: owners overwrite slices from now on */
#include "core/memory.h"
#include "ddp/plan.h"
#include "passes/passes.h"

#include <stdlib.h>

#define LINE_ELEMENTS 16 /* float32 in a cache line */

/* One parameter, with the node and output that complete its gradient. */
typedef struct entry {
    tdmi_id parameter;
    int node, output;
} entry;

static int by_readiness(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return x->node != y->node ? (x->node > y->node) - (x->node < y->node) : x->output - y->output;
}

static int output_of(const tdmi_node *n, tdmi_id t)
{
    int k = 0;
    while (n->out[k] != t)
        k++;
    return k;
}

/* All parameters in the order their gradients become ready; returns how many. */
static int list(const tdmi_graph *g, entry *entries)
{
    int count = 0;
    for (int t = 0; t < g->tensor_count; t++) {
        if (g->tensor[t].role != TDMI_ROLE_PARAMETER)
            continue;
        const tdmi_id gradient = g->tensor[t].gradient;
        const int node = g->tensor[gradient].producer;
        entries[count++] = (entry){t, node, output_of(&g->node[node], gradient)};
    }
    qsort(entries, (size_t)count, sizeof *entries, by_readiness);
    return count;
}

/* Gives each parameter and its gradient (all versions of a sum) their place, and fills the buckets. */
static void lay_out(tdmi_graph *g, const entry *entries, int count, const int *bucket_of, int world_size)
{
    size_t end = 0;
    for (int i = 0; i < count; i++) {
        tdmi_tensor *p = &g->tensor[entries[i].parameter];
        tdmi_bucket *b = &g->bucket[bucket_of[i]];
        if (b->parameters == 0)
            end = 0;
        p->bucket = bucket_of[i];
        p->offset = (end + LINE_ELEMENTS - 1) / LINE_ELEMENTS * LINE_ELEMENTS;
        end = p->offset + tdmi_shape_count(&p->shape);
        b->parameters++;
        b->used += tdmi_shape_count(&p->shape);
        b->count = tdmi_plan_padded(end, sizeof(float), world_size);
    }
    for (int t = 0; t < g->tensor_count; t++) {
        if (g->tensor[t].role == TDMI_ROLE_GRADIENT) {
            g->tensor[t].bucket = g->tensor[g->tensor[t].parameter].bucket;
            g->tensor[t].offset = g->tensor[g->tensor[t].parameter].offset;
        }
    }
}

/* after[b]: the node behind which bucket b starts. Buckets start in order, as all ranks agree on one. */
static void find_starts(const tdmi_graph *g, int *after)
{
    for (int b = 0; b < g->bucket_count; b++)
        after[b] = -1;
    for (int i = 0; i < g->node_count; i++) {
        const tdmi_node *n = &g->node[i];
        for (int k = 0; k < n->in_count; k++)
            if (n->in[k] >= 0 && g->tensor[n->in[k]].role == TDMI_ROLE_PARAMETER)
                after[g->tensor[n->in[k]].bucket] = i;
        for (int k = 0; k < n->out_count; k++)
            if (n->out[k] >= 0 && g->tensor[n->out[k]].role == TDMI_ROLE_GRADIENT)
                after[g->tensor[n->out[k]].bucket] = i;
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

static tdm_status plan(tdmi_graph *g, const tdmi_pipeline_options *options, entry *entries, size_t *nbytes, int *bucket_of)
{
    const int count = list(g, entries);
    for (int i = 0; i < count; i++)
        nbytes[i] = tdmi_shape_nbytes(&g->tensor[entries[i].parameter].shape);
    size_t cap, first_cap;
    tdmi_plan_caps(options->bucket_cap_mb, options->first_bucket_mb, &cap, &first_cap);
    const int buckets = tdmi_plan_buckets(nbytes, count, first_cap, cap, bucket_of);
    g->bucket = tdmi_calloc((size_t)buckets, sizeof *g->bucket, "graph");
    if (g->bucket == NULL)
        return TDM_ERR_NO_MEMORY;
    g->bucket_count = buckets;
    lay_out(g, entries, count, bucket_of, options->world_size);
    return insert_starts(g);
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
    entry *entries = tdmi_malloc(parameters * sizeof *entries, "bucket pass");
    size_t *nbytes = tdmi_malloc(parameters * sizeof *nbytes, "bucket pass");
    int *bucket_of = tdmi_malloc(parameters * sizeof *bucket_of, "bucket pass");
    tdm_status st = entries == NULL || nbytes == NULL || bucket_of == NULL
                        ? TDM_ERR_NO_MEMORY
                        : plan(g, options, entries, nbytes, bucket_of);
    tdmi_free(bucket_of);
    tdmi_free(nbytes);
    tdmi_free(entries);
    return st;
}
