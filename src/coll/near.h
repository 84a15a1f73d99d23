/* near.h - in which order a rank goes to the others' memory: near first. */
#ifndef TDMI_COLL_NEAR_H
#define TDMI_COLL_NEAR_H

#include "coll/steps.h"

/* order [n]: this rank, then those that share its last-level cache, then those of its NUMA node, then the others. Pure. */
void tdmi_near_first(const tdmi_topology *topology, int *order);

#endif
