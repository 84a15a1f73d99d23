/* layout.h - how the ranks of a group lie on nodes, for hierarchical lists: lanes, and which partial sums a node can make. */
#ifndef TDMI_COLL_LAYOUT_H
#define TDMI_COLL_LAYOUT_H

#include "coll/algorithm.h"

/* The i-th ranks of all nodes are lane i. There are as many lanes as the smallest node has ranks. */
typedef struct tdmi_layout {
    const tdmi_topology *topology;
    int nodes, node;         /* how many, own */
    int local, index;        /* ranks on the own node, own place among them */
    int smallest, largest;   /* ranks on a node */
} tdmi_layout;

tdmi_layout tdmi_layout_of(const tdmi_topology *topology);
int tdmi_layout_node(const tdmi_topology *topology, int rank);
/* The index-th rank of a node. */
int tdmi_layout_rank(const tdmi_layout *layout, int node, int index);

/* The ranks of one lane as if they were the group: ranks of it are nodes. */
tdmi_topology tdmi_layout_lane(const tdmi_layout *layout);

/* Ranks [first, end), all on one node, whose sum is a node of the canonical tree. */
typedef struct tdmi_partial {
    int first, end, node;
} tdmi_partial;

/* The fewest that make up the tree, in order; out has room for n. */
int tdmi_layout_partials(const tdmi_topology *topology, tdmi_partial *out);
/* Whether the tree over nodes 0, 1, ... is the rest of the canonical tree: one partial a node, all but the last of one size. */
bool tdmi_layout_is_regular(const tdmi_partial *partials, int count, int nodes);

#endif
