/* remat.h - what the files of the remat pass share. */
#ifndef TDMI_PASSES_REMAT_H
#define TDMI_PASSES_REMAT_H

#include "passes/passes.h"

/* Lists the forward nodes marked in again[node_count] a second time, each before the first backward node that needs it. */
tdm_status remat_apply(tdmi_graph *g, const bool *again);
/* remat_auto.c: again[] has all that may be marked, and gets the cheapest of it that lets the step fit into
 * options->memory_nbytes. */
tdm_status remat_choose(const tdmi_graph *g, const tdmi_pipeline_options *options, bool *again);

#endif
