/* lifetime.h - when each piece of memory is in use: from the node that first writes it to the last that touches it or any
 * alias of it. */
#ifndef TDMI_PASSES_LIFETIME_H
#define TDMI_PASSES_LIFETIME_H

#include "graph/graph.h"

typedef struct tdmi_lifetime {
    tdmi_id root;    /* who owns the memory; first and last are kept at the root alone */
    int first, last; /* nodes, both inclusive. INPUTs live from -1, INPUTs and OUTPUTs to node_count: the caller has them */
} tdmi_lifetime;

/* [tensor_count], new (tdmi_free); NULL without memory. */
tdmi_lifetime *tdmi_lifetimes(const tdmi_graph *g);
/* Whether the tensor owns memory of the slab. */
bool tdmi_lifetime_in_slab(const tdmi_graph *g, tdmi_id t);

#endif
