/* reducer_rig.h - small reducers and gradients whose averages are exact: what the reducer's tests share. */
#ifndef TESTS_DDP_REDUCER_RIG_H
#define TESTS_DDP_REDUCER_RIG_H

#include "ddp/reducer.h"
#include "on_ranks.h"

#define RIG_PARAMETERS 9

/* Small buckets: about one for two parameters. */
tdm_reducer_options rig_small_buckets(void);
/* RIG_PARAMETERS parameters "p0", "p1", ... of different sizes, one of them empty. */
tdm_status rig_create(tdm_group *group, const tdm_reducer_options *options, tdm_reducer **out);
/* n parameters of one value each, for cases that are told in single numbers. */
tdm_status rig_create_scalars(tdm_group *group, const tdm_reducer_options *options, int n, tdm_reducer **out);
/* The gradient of parameter i on this rank in this step; all ranks' average of it. */
void rig_write_gradient(tdm_reducer *r, int rank, int i, int step);
const char *rig_check_mean(tdm_reducer *r, int size, int step);
float *rig_gradient(tdm_reducer *r, int id);

#endif
