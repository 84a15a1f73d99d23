/* costs.h - what a step's nodes and reductions are thought to take on this machine: for plans made before the first step. */
#ifndef TDMI_TRAIN_COSTS_H
#define TDMI_TRAIN_COSTS_H

#include "passes/cost.h"

#include <tandem/group.h>

/* By instruction set and number of threads, for ranks of one node: the same on each run, so that a plan is. */
tdmi_cost tdmi_costs_of_node(void);
/* The same where the group lies on one node. On several the reductions are measured, for about a tenth of a second, and all
 * ranks get the slowest's numbers. Collective. */
tdm_status tdmi_costs_of_group(tdm_group *group, tdmi_cost *out);

#endif
