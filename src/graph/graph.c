/* graph.c - a graph's memory: create, copy, append, find. */
#include "graph/graph.h"

#include "core/memory.h"

#include <stdio.h>
#include <string.h>

tdmi_graph *tdmi_graph_create(const char *name)
{
    tdmi_graph *g = tdmi_calloc(1, sizeof *g, "graph");
    if (g == NULL)
        return NULL;
    snprintf(g->name, sizeof g->name, "%s", name);
    g->loss = -1;
    g->micro_batches = 1;
    return g;
}

void tdmi_graph_destroy(tdmi_graph *graph)
{
    if (graph == NULL)
        return;
    tdmi_free(graph->tensor);
    tdmi_free(graph->node);
    tdmi_free(graph->bucket);
    tdmi_free(graph);
}

/* A copy of `count` elements, NULL for none; *st tells a failure from an empty array. */
static void *copy_of(const void *from, int count, size_t size, tdm_status *st)
{
    if (count == 0 || *st != TDM_OK)
        return NULL;
    void *to = tdmi_malloc((size_t)count * size, "graph");
    if (to == NULL)
        *st = TDM_ERR_NO_MEMORY;
    else
        memcpy(to, from, (size_t)count * size);
    return to;
}

tdmi_graph *tdmi_graph_copy(const tdmi_graph *graph)
{
    tdmi_graph *g = tdmi_graph_create(graph->name);
    if (g == NULL)
        return NULL;
    tdm_status st = TDM_OK;
    *g = *graph;
    g->tensor = copy_of(graph->tensor, graph->tensor_count, sizeof *g->tensor, &st);
    g->node = copy_of(graph->node, graph->node_count, sizeof *g->node, &st);
    g->bucket = copy_of(graph->bucket, graph->bucket_count, sizeof *g->bucket, &st);
    g->tensor_capacity = g->tensor_count;
    g->node_capacity = g->node_count;
    if (st != TDM_OK) {
        tdmi_graph_destroy(g);
        return NULL;
    }
    return g;
}

/* Room for one more element; the first error of a graph stays in its status. */
static bool grow(tdmi_graph *g, void **array, int count, int *capacity, size_t size)
{
    if (count < *capacity)
        return true;
    int wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *larger = tdmi_realloc(*array, (size_t)wanted * size, "graph");
    if (larger == NULL) {
        if (g->status == TDM_OK) {
            g->status = TDM_ERR_NO_MEMORY;
            snprintf(g->status_text, sizeof g->status_text, "%s", tdm_error_text());
        }
        return false;
    }
    *array = larger;
    *capacity = wanted;
    return true;
}

tdmi_id tdmi_graph_add_tensor(tdmi_graph *g, const tdmi_tensor *tensor)
{
    void *array = g->tensor;
    if (!grow(g, &array, g->tensor_count, &g->tensor_capacity, sizeof *g->tensor))
        return -1;
    g->tensor = array;
    g->tensor[g->tensor_count] = *tensor;
    return g->tensor_count++;
}

static void own_outputs(tdmi_graph *g, const tdmi_node *node, int at)
{
    for (int i = 0; i < node->out_count; i++)
        if (node->out[i] >= 0 && node->out[i] < g->tensor_count)
            g->tensor[node->out[i]].producer = at;
}

tdmi_id tdmi_graph_add_node(tdmi_graph *g, const tdmi_node *node)
{
    void *array = g->node;
    if (!grow(g, &array, g->node_count, &g->node_capacity, sizeof *g->node))
        return -1;
    g->node = array;
    g->node[g->node_count] = *node;
    own_outputs(g, node, g->node_count);
    return g->node_count++;
}

tdm_status tdmi_graph_set_nodes(tdmi_graph *g, const tdmi_node *node, int count)
{
    tdm_status st = TDM_OK;
    tdmi_node *copy = copy_of(node, count, sizeof *copy, &st);
    if (st != TDM_OK)
        return st;
    tdmi_free(g->node);
    g->node = copy;
    g->node_count = g->node_capacity = count;
    for (int i = 0; i < count; i++)
        own_outputs(g, &copy[i], i);
    return TDM_OK;
}

static void renumber(const tdmi_id *to, tdmi_id *id)
{
    if (*id >= 0)
        *id = to[*id];
}

/* Moves the tensors that are kept together; to[t] is where t is now, or -1. */
static void keep(tdmi_graph *g, tdmi_id *to)
{
    int count = 0;
    for (int t = 0; t < g->tensor_count; t++) {
        const bool kept = to[t] >= 0;
        if (kept)
            g->tensor[count] = g->tensor[t];
        to[t] = kept ? count++ : -1;
    }
    g->tensor_count = count;
    for (int t = 0; t < count; t++) {
        renumber(to, &g->tensor[t].alias);
        renumber(to, &g->tensor[t].gradient);
        renumber(to, &g->tensor[t].parameter);
    }
    for (int i = 0; i < g->node_count; i++) {
        for (int k = 0; k < g->node[i].in_count; k++)
            renumber(to, &g->node[i].in[k]);
        for (int k = 0; k < g->node[i].out_count; k++)
            renumber(to, &g->node[i].out[k]);
    }
    renumber(to, &g->loss);
}

tdm_status tdmi_graph_drop_unused(tdmi_graph *g)
{
    tdmi_id *to = tdmi_malloc(((size_t)g->tensor_count + 1) * sizeof *to, "graph");
    if (to == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int t = 0; t < g->tensor_count; t++)
        to[t] = g->tensor[t].role == TDMI_ROLE_ACTIVATION ? -1 : t;
    for (int i = 0; i < g->node_count; i++) {
        for (int k = 0; k < g->node[i].in_count; k++)
            if (g->node[i].in[k] >= 0)
                to[g->node[i].in[k]] = g->node[i].in[k];
        for (int k = 0; k < g->node[i].out_count; k++)
            if (g->node[i].out[k] >= 0)
                to[g->node[i].out[k]] = g->node[i].out[k];
    }
    for (int t = g->tensor_count - 1; t >= 0; t--)
        if (to[t] >= 0 && g->tensor[t].alias >= 0)
            to[g->tensor[t].alias] = g->tensor[t].alias;
    keep(g, to);
    tdmi_free(to);
    return TDM_OK;
}

tdm_status tdmi_graph_status(const tdmi_graph *g)
{
    if (g->status != TDM_OK)
        tdmi_error_set_text(g->status_text);
    return g->status;
}

tdmi_id tdmi_graph_find(const tdmi_graph *g, const char *name)
{
    for (int t = 0; t < g->tensor_count; t++)
        if (strcmp(g->tensor[t].name, name) == 0)
            return t;
    return -1;
}

tdmi_id tdmi_graph_root(const tdmi_graph *g, tdmi_id x)
{
    while (g->tensor[x].alias >= 0)
        x = g->tensor[x].alias;
    return x;
}

size_t tdmi_graph_parameter_count(const tdmi_graph *g)
{
    size_t count = 0;
    for (int t = 0; t < g->tensor_count; t++)
        if (g->tensor[t].role == TDMI_ROLE_PARAMETER)
            count += tdmi_shape_count(&g->tensor[t].shape);
    return count;
}

int tdmi_graph_last_bucket(const tdmi_graph *g, tdmi_id t)
{
    int bucket = g->tensor[t].bucket;
    size_t end = g->tensor[t].offset + tdmi_shape_count(&g->tensor[t].shape);
    for (; bucket + 1 < g->bucket_count && end > g->bucket[bucket].count; bucket++)
        end -= g->bucket[bucket].count;
    return bucket;
}
