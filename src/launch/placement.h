/* placement.h - how many threads each rank of a node gets by default, and on which CPUs it runs. */
#ifndef TDMI_LAUNCH_PLACEMENT_H
#define TDMI_LAUNCH_PLACEMENT_H

#include "core/error.h"

#include <sched.h>

typedef struct tdmi_placement {
    int threads;      /* for OMP_NUM_THREADS where the user has not set it: max(1, floor(usable CPUs / ranks)) */
    cpu_set_t *sets;  /* [ranks] disjoint CPUs of each rank; NULL: ranks are not bound */
    char note[256];   /* one line for people, "" when there is nothing to say */
} tdmi_placement;

/* user_threads: the OMP_NUM_THREADS there is, or NULL. Neighbouring ranks get neighbouring CPUs: a rank's CPUs share cores, then
 * a socket, then a NUMA node, as far as the numbers allow. */
tdm_status tdmi_placement_choose(int ranks, const char *user_threads, tdmi_placement *out);
void tdmi_placement_free(tdmi_placement *placement);

#endif
