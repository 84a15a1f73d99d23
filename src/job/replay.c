/* replay.c - the graph's store, its order, and the replay.
 *
 * Links are collected as they come; finish() sorts them by the node they lead to and lists the nodes so that each stands behind
 * all it links from (Kahn's order). A replay is then one pass over two arrays. */
#include "job/replay.h"

#include "core/memory.h"
#include "job/order.h"

#include <string.h>

typedef struct raw_link {
    uint32_t to;
    tdmi_link link;
} raw_link;

struct tdmi_graph {
    int64_t *measured_ns; /* by node */
    size_t nodes, node_capacity;
    raw_link *raw; /* until finish */
    size_t links, link_capacity;
    tdmi_link *link;  /* by node */
    uint32_t *first;  /* [nodes + 1] */
    uint32_t *order;  /* [nodes] */
};

tdm_status tdmi_graph_create(tdmi_graph **out)
{
    *out = tdmi_calloc(1, sizeof **out, "replay");
    return *out != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
}

void tdmi_graph_free(tdmi_graph *graph)
{
    if (graph == NULL)
        return;
    tdmi_free(graph->measured_ns);
    tdmi_free(graph->raw);
    tdmi_free(graph->link);
    tdmi_free(graph->first);
    tdmi_free(graph->order);
    tdmi_free(graph);
}

uint32_t tdmi_graph_node(tdmi_graph *graph, int64_t measured_ns)
{
    if (graph->nodes == graph->node_capacity) {
        const size_t capacity = graph->node_capacity * 2 + 1024;
        int64_t *more = capacity < UINT32_MAX ? tdmi_realloc(graph->measured_ns, capacity * sizeof *more, "replay") : NULL;
        if (more == NULL)
            return UINT32_MAX;
        graph->measured_ns = more;
        graph->node_capacity = capacity;
    }
    graph->measured_ns[graph->nodes] = measured_ns;
    return (uint32_t)graph->nodes++;
}

tdm_status tdmi_graph_link(tdmi_graph *graph, uint32_t to, const tdmi_link *link)
{
    if (graph->links == graph->link_capacity) {
        const size_t capacity = graph->link_capacity * 2 + 2048;
        raw_link *more = capacity < UINT32_MAX ? tdmi_realloc(graph->raw, capacity * sizeof *more, "replay") : NULL;
        if (more == NULL)
            return TDM_ERR_NO_MEMORY;
        graph->raw = more;
        graph->link_capacity = capacity;
    }
    graph->raw[graph->links++] = (raw_link){to, *link};
    return TDM_OK;
}

static bool reserve(tdmi_graph *graph, size_t nodes, size_t links)
{
    int64_t *measured_ns = nodes < UINT32_MAX ? tdmi_realloc(graph->measured_ns, (nodes + 1) * sizeof *measured_ns, "replay") : NULL;
    if (measured_ns != NULL) {
        graph->measured_ns = measured_ns;
        graph->node_capacity = nodes + 1;
    }
    raw_link *raw = measured_ns != NULL && links < UINT32_MAX ? tdmi_realloc(graph->raw, (links + 1) * sizeof *raw, "replay") : NULL;
    if (raw != NULL) {
        graph->raw = raw;
        graph->link_capacity = links + 1;
    }
    return raw != NULL;
}

tdm_status tdmi_graph_append(tdmi_graph *graph, tdmi_graph *more, uint32_t *offset_out)
{
    const uint32_t offset = (uint32_t)graph->nodes;
    if (!reserve(graph, graph->nodes + more->nodes, graph->links + more->links))
        return TDM_ERR_NO_MEMORY;
    if (more->nodes > 0)
        memcpy(graph->measured_ns + graph->nodes, more->measured_ns, more->nodes * sizeof *more->measured_ns);
    for (size_t i = 0; i < more->links; i++) {
        raw_link *to = &graph->raw[graph->links + i];
        *to = more->raw[i];
        to->to += offset;
        to->link.from += offset;
    }
    graph->nodes += more->nodes;
    graph->links += more->links;
    more->nodes = more->links = 0;
    *offset_out = offset;
    return TDM_OK;
}

/* By the node they lead to; the order of those of one node stays. */
static tdm_status sort_links(tdmi_graph *graph)
{
    graph->first = tdmi_calloc(graph->nodes + 2, sizeof *graph->first, "replay");
    graph->link = tdmi_malloc((graph->links + 1) * sizeof *graph->link, "replay");
    if (graph->first == NULL || graph->link == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < graph->links; i++)
        graph->first[graph->raw[i].to + 2]++;
    for (size_t n = 2; n < graph->nodes + 2; n++)
        graph->first[n] += graph->first[n - 1];
    for (size_t i = 0; i < graph->links; i++)
        graph->link[graph->first[graph->raw[i].to + 1]++] = graph->raw[i].link;
    tdmi_free(graph->raw);
    graph->raw = NULL;
    return TDM_OK;
}

/* The links of a node from nodes that are not placed yet go; they would make a circle. */
static void cut_links(tdmi_graph *graph, uint32_t node, const bool *placed)
{
    for (uint32_t i = graph->first[node]; i < graph->first[node + 1]; i++)
        if (!placed[graph->link[i].from])
            graph->link[i] = (tdmi_link){.from = node, .event = UINT32_MAX, .ns = TDMI_CUT};
}

/* Kahn's order. Where only circles are left the earliest node of them goes first and loses what it still waits for. */
static tdm_status order_nodes(tdmi_graph *graph, size_t *cut_out)
{
    const size_t nodes = graph->nodes;
    uint32_t *open = tdmi_calloc(nodes + 1, sizeof *open, "replay");        /* links that a node still waits for */
    uint32_t *out_first = tdmi_calloc(nodes + 2, sizeof *out_first, "replay");
    uint32_t *out = tdmi_malloc((graph->links + 1) * sizeof *out, "replay");
    bool *placed = tdmi_calloc(nodes + 1, sizeof *placed, "replay");
    tdmi_key *rest = NULL;
    graph->order = tdmi_malloc((nodes + 1) * sizeof *graph->order, "replay");
    tdm_status status = open != NULL && out_first != NULL && out != NULL && placed != NULL && graph->order != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    size_t count = 0, at = 0, next_rest = 0;
    *cut_out = 0;
    if (status == TDM_OK) {
        for (size_t i = 0; i < graph->links; i++)
            out_first[graph->link[i].from + 2]++;
        for (size_t n = 2; n < nodes + 2; n++)
            out_first[n] += out_first[n - 1];
        for (uint32_t n = 0; n < nodes; n++)
            for (uint32_t i = graph->first[n]; i < graph->first[n + 1]; i++) {
                out[out_first[graph->link[i].from + 1]++] = n;
                open[n]++;
            }
        for (uint32_t n = 0; n < nodes; n++)
            if (open[n] == 0)
                graph->order[count++] = n;
    }
    while (status == TDM_OK && at < nodes) {
        if (at == count) {
            if (rest == NULL) {
                size_t left = 0;
                rest = tdmi_malloc((nodes - at + 1) * sizeof *rest, "replay");
                if (rest == NULL) {
                    status = TDM_ERR_NO_MEMORY;
                    break;
                }
                for (uint32_t n = 0; n < nodes; n++)
                    if (open[n] > 0)
                        rest[left++] = (tdmi_key){graph->measured_ns[n], n};
                status = tdmi_keys_sort(rest, left, NULL, NULL);
                if (status != TDM_OK)
                    break;
            }
            while (open[rest[next_rest].index] == 0)
                next_rest++;
            const uint32_t node = rest[next_rest].index;
            cut_links(graph, node, placed);
            open[node] = 0;
            graph->order[count++] = node;
            ++*cut_out;
        }
        const uint32_t node = graph->order[at++];
        placed[node] = true;
        for (uint32_t i = out_first[node]; i < out_first[node + 1]; i++)
            if (open[out[i]] > 0 && --open[out[i]] == 0)
                graph->order[count++] = out[i];
    }
    tdmi_free(open);
    tdmi_free(out_first);
    tdmi_free(out);
    tdmi_free(placed);
    tdmi_free(rest);
    return status;
}

/* Link times as near to the measured ones as the links go: no link asks for more, one of each node asks for all. */
static void fit(tdmi_graph *graph)
{
    for (uint32_t n = 0; n < graph->nodes; n++) {
        tdmi_link *binding = NULL;
        int64_t most_ns = INT64_MIN;
        for (uint32_t i = graph->first[n]; i < graph->first[n + 1]; i++) {
            tdmi_link *link = &graph->link[i];
            if (link->ns == TDMI_CUT || (TDMI_DUES_ASKED_FOR >> link->due & 1) != 0)
                continue; /* what is only asked for explains nothing that was measured */
            const int64_t measured_ns = graph->measured_ns[n] - graph->measured_ns[link->from];
            link->ns = link->ns < measured_ns ? link->ns : measured_ns;
            link->ns = link->ns > 0 ? link->ns : 0;
            if (graph->measured_ns[link->from] + link->ns > most_ns) {
                most_ns = graph->measured_ns[link->from] + link->ns;
                binding = link;
            }
        }
        if (binding != NULL && most_ns < graph->measured_ns[n])
            binding->ns = graph->measured_ns[n] - graph->measured_ns[binding->from];
    }
}

tdm_status tdmi_graph_finish(tdmi_graph *graph, size_t *cut_out)
{
    tdm_status status = sort_links(graph);
    if (status == TDM_OK)
        status = order_nodes(graph, cut_out);
    if (status == TDM_OK)
        fit(graph);
    return status;
}

size_t tdmi_graph_nodes(const tdmi_graph *graph)
{
    return graph->nodes;
}

int64_t tdmi_graph_measured(const tdmi_graph *graph, uint32_t node)
{
    return graph->measured_ns[node];
}

void tdmi_replay(const tdmi_graph *graph, const tdmi_variation *variation, int64_t *time_out)
{
    const unsigned away = TDMI_DUES_ASKED_FOR & ~variation->also;
    for (size_t at = 0; at < graph->nodes; at++) {
        const uint32_t node = graph->order[at];
        int64_t latest_ns = INT64_MIN;
        for (uint32_t i = graph->first[node]; i < graph->first[node + 1]; i++) {
            const tdmi_link *link = &graph->link[i];
            if (link->ns == TDMI_CUT || (away >> link->due & 1) != 0)
                continue;
            const int64_t ns = variation->change == NULL ? link->ns : variation->change(link, variation->arg);
            if (ns != TDMI_CUT && time_out[link->from] + ns > latest_ns)
                latest_ns = time_out[link->from] + ns;
        }
        time_out[node] = latest_ns != INT64_MIN ? latest_ns : graph->measured_ns[node];
    }
}

void tdmi_graph_each_link(const tdmi_graph *graph, void (*visit)(uint32_t to, const tdmi_link *link, void *arg), void *arg)
{
    for (uint32_t n = 0; n < graph->nodes; n++)
        for (uint32_t i = graph->first[n]; i < graph->first[n + 1]; i++)
            if (graph->link[i].ns != TDMI_CUT)
                visit(n, &graph->link[i], arg);
}
