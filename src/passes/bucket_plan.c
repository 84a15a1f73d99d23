/* bucket_plan.c - which gradients travel together: by caps, or so that the last reduction is over first.
 *
 *     ready     ln_f  h.11 ...  h.0  wte (154 MB)              caps 1, 25 MB: a bucket closes once it holds its cap; what is
 *     items     ####  ####  ##  ####  25 25 25 25 25 25 4      larger than the last cap is cut into parts of it */
#include "passes/bucket.h"

#include "core/memory.h"
#include "ddp/plan.h"

#include <stdlib.h>

#define LINE_BYTES ((size_t)256) /* of a rank's slice of a part: whole cache lines also where gradients are halves */
#define AUTO_PART_BYTES ((size_t)25 << 20)
#define BUCKETS_MAX 16384

size_t bucket_quantum(int world_size)
{
    return LINE_BYTES / sizeof(float) * (size_t)world_size;
}

static int by_readiness(const void *a, const void *b)
{
    const bucket_item *x = a, *y = b;
    if (x->block != NULL && (x->block_length == 0) != (y->block_length == 0))
        return x->block_length == 0 ? 1 : -1;
    if (x->node != y->node)
        return (x->node > y->node) - (x->node < y->node);
    return x->output != y->output ? x->output - y->output : (x->within > y->within) - (x->within < y->within);
}

static int output_of(const tdmi_node *n, tdmi_id t)
{
    int k = 0;
    while (n->out[k] != t)
        k++;
    return k;
}

/* The caps of options in bytes into caps[TDMI_BUCKET_LIST_MAX + 1]; returns how many. */
static int caps_of(const tdmi_pipeline_options *options, size_t *caps)
{
    int count = 0;
    for (; count < options->bucket_list_count; count++)
        tdmi_plan_caps(options->bucket_list_mb[count], 0, &caps[count], &caps[count + 1]);
    if (count > 0)
        return count;
    tdmi_plan_caps(options->bucket_cap_mb, options->first_bucket_mb, &caps[1], &caps[0]);
    return 2;
}

static size_t part_of(const tdmi_graph *g, const tdmi_pipeline_options *options)
{
    size_t caps[TDMI_BUCKET_LIST_MAX + 1];
    const int count = caps_of(options, caps);
    const size_t quantum = bucket_quantum(options->world_size);
    const size_t part = (options->bucket_auto ? AUTO_PART_BYTES : caps[count - 1]) / tdm_dtype_size(g->gradient_type) / quantum * quantum;
    return part > quantum ? part : quantum;
}

/* Fills items and gives their number; with items NULL it only counts. */
static int list(const tdmi_graph *g, size_t part, bucket_item *items)
{
    int count = 0;
    for (int t = 0; t < g->tensor_count; t++) {
        if (g->tensor[t].role != TDMI_ROLE_PARAMETER)
            continue;
        const size_t all = tdmi_shape_count(&g->tensor[t].shape);
        const tdmi_id gradient = g->tensor[t].gradient;
        const int node = g->tensor[gradient].producer;
        for (size_t within = 0; within < all && count <= BUCKETS_MAX; within += part, count++)
            if (items != NULL)
                items[count] = (bucket_item){.parameter = t, .node = node, .free = node, .within = within,
                                             .output = output_of(&g->node[node], gradient),
                                             .count = all - within < part ? all - within : part};
    }
    return count;
}

/* Whether t is the parameter or its copy. */
static bool reads(const tdmi_graph *g, tdmi_id t, tdmi_id parameter)
{
    return t == parameter || (t >= 0 && g->tensor[t].role == TDMI_ROLE_COPY && g->tensor[t].parameter == parameter);
}

/* Readers after the last writer hold a bucket back. */
static void find_readers(const tdmi_graph *g, bucket_item *items, int count)
{
    for (int i = 0; i < count; i++)
        for (int n = items[i].node + 1; n < g->node_count; n++)
            for (int k = 0; k < g->node[n].in_count; k++)
                if (reads(g, g->node[n].in[k], items[i].parameter))
                    items[i].free = n;
}

tdm_status bucket_items(const tdmi_graph *g, const tdmi_pipeline_options *options, bucket_item **out, int *count)
{
    const size_t part = part_of(g, options);
    *count = list(g, part, NULL);
    if (*count > BUCKETS_MAX)
        return tdmi_fail(TDM_ERR_INVALID, "gradients of %zu elements in parts of %zu would be too many buckets, at most %d are "
                         "possible; make buckets larger", tdmi_graph_parameter_count(g), part, BUCKETS_MAX);
    bucket_item *items = tdmi_malloc((size_t)*count * sizeof *items, "bucket pass");
    if (items == NULL)
        return TDM_ERR_NO_MEMORY;
    (void)list(g, part, items);
    for (int i = 0; i < *count && options->shard == 3 && options->parts > 1; i++) {
        items[i].block = g->tensor[items[i].parameter].name;
        items[i].block_length = bucket_block_length(items[i].block);
    }
    qsort(items, (size_t)*count, sizeof *items, by_readiness);
    if (*count > 0 && items[0].block != NULL)
        bucket_sort_by_reads(g, items, *count);
    find_readers(g, items, *count);
    *out = items;
    return TDM_OK;
}

/* When each item's bucket may start, from the begin of the step; buckets start in order. */
static void ready_times(const tdmi_graph *g, const tdmi_cost *cost, const bucket_item *items, int count, double *ready_s)
{
    double now_s = 0;
    int node = 0;
    for (int i = 0; i < count; i++) {
        for (; node <= items[i].free; node++)
            now_s += tdmi_cost_of_node(g, &g->node[node], cost);
        ready_s[i] = now_s;
    }
}

tdm_status bucket_plan(const tdmi_graph *g, const tdmi_pipeline_options *options, const bucket_item *items, int count,
                       int *bucket_of, int *buckets)
{
    size_t caps[TDMI_BUCKET_LIST_MAX + 1];
    const int cap_count = caps_of(options, caps);
    size_t *nbytes = tdmi_malloc((size_t)count * sizeof *nbytes, "bucket pass");
    double *ready_s = tdmi_malloc((size_t)count * sizeof *ready_s, "bucket pass"), finish_s;
    tdm_status st = nbytes == NULL || ready_s == NULL ? TDM_ERR_NO_MEMORY : TDM_OK;
    for (int i = 0; i < count && st == TDM_OK; i++)
        nbytes[i] = items[i].count * tdm_dtype_size(g->gradient_type);
    if (st == TDM_OK && options->bucket_auto) {
        ready_times(g, &options->cost, items, count, ready_s);
        st = tdmi_plan_fastest(ready_s, nbytes, count, options->cost.alpha_s, options->cost.beta_s, AUTO_PART_BYTES,
                               bucket_of, buckets, &finish_s);
    } else if (st == TDM_OK && items[0].block != NULL) {
        *buckets = bucket_plan_units(items, nbytes, count, caps, cap_count, bucket_of);
    } else if (st == TDM_OK) {
        *buckets = tdmi_plan_buckets(nbytes, count, caps, cap_count, bucket_of);
    }
    tdmi_free(ready_s);
    tdmi_free(nbytes);
    return st;
}
