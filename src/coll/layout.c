/* layout.c - counting ranks on nodes, and cutting the canonical tree along them. */
#include "coll/layout.h"

int tdmi_layout_node(const tdmi_topology *topology, int rank)
{
    return topology->node == NULL ? 0 : topology->node[rank];
}

int tdmi_layout_rank(const tdmi_layout *layout, int node, int index)
{
    for (int r = 0; r < layout->topology->n; r++)
        if (tdmi_layout_node(layout->topology, r) == node && index-- == 0)
            return r;
    return -1;
}

tdmi_layout tdmi_layout_of(const tdmi_topology *topology)
{
    const int n = topology->n;
    int ranks[n];
    tdmi_layout l = {.topology = topology, .node = tdmi_layout_node(topology, topology->rank)};
    for (int m = 0; m < n; m++)
        ranks[m] = 0;
    for (int r = 0; r < n; r++) {
        const int node = tdmi_layout_node(topology, r);
        ranks[node]++;
        l.nodes = node + 1 > l.nodes ? node + 1 : l.nodes;
        l.local += node == l.node;
        l.index += node == l.node && r < topology->rank;
    }
    l.smallest = n;
    for (int m = 0; m < l.nodes; m++) {
        l.smallest = ranks[m] < l.smallest ? ranks[m] : l.smallest;
        l.largest = ranks[m] > l.largest ? ranks[m] : l.largest;
    }
    return l;
}

tdmi_topology tdmi_layout_lane(const tdmi_layout *layout)
{
    tdmi_topology lane = {.rank = layout->node, .n = layout->nodes};
    for (int shape = 0; shape < TDMI_SHAPES; shape++)
        lane.order[shape] = layout->topology->node_order[shape];
    return lane;
}

/* Of the tree's node over [first, first + size), as far as there are ranks. */
static int cut(const tdmi_topology *topology, int first, int size, tdmi_partial *out)
{
    const int end = first + size < topology->n ? first + size : topology->n;
    int together = first;
    if (first >= end)
        return 0;
    while (together < end && tdmi_layout_node(topology, together) == tdmi_layout_node(topology, first))
        together++;
    if (together == end) {
        *out = (tdmi_partial){first, end, tdmi_layout_node(topology, first)};
        return 1;
    }
    const int left = cut(topology, first, size / 2, out);
    return left + cut(topology, first + size / 2, size / 2, out + left);
}

int tdmi_layout_partials(const tdmi_topology *topology, tdmi_partial *out)
{
    const int bit = tdmi_highest_bit(topology->n);
    return cut(topology, 0, bit < topology->n ? 2 * bit : bit, out);
}

bool tdmi_layout_is_regular(const tdmi_partial *partials, int count, int nodes)
{
    const int width = partials[0].end - partials[0].first;
    for (int i = 0; i < count; i++)
        if (partials[i].node != i || partials[i].first != i * width)
            return false;
    return count == nodes;
}
