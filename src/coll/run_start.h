/* run_start.h - what run.c asks of the buffers that run_start.c has made. */
#ifndef TDMI_COLL_RUN_START_H
#define TDMI_COLL_RUN_START_H

#include "coll/run.h"

/* Elements of the caller's buffers. */
size_t tdmi_run_in_count(const tdmi_run *run);
size_t tdmi_run_out_count(const tdmi_run *run);
/* Whether it is fused and works on a padded copy. */
bool tdmi_run_is_padded(const tdmi_run *run);
/* The way is known: if that is needed the input becomes its padded copy. */
void tdmi_run_use_padded(tdmi_run *run);

#endif
