/* work_steps.h - the steps that move and sum data, as opposed to those that meet. */
#ifndef TDMI_COLL_WORK_STEPS_H
#define TDMI_COLL_WORK_STEPS_H

#include "coll/run.h"

/* Does a piece of the step, from run->at on. *done: it was the last. An error is the group's end. */
tdm_status tdmi_work_step(tdmi_run *run, const tdmi_step *step, bool *done);
/* Of this rank's own buffers: type of the elements, and where a range starts. */
tdm_dtype tdmi_work_dtype(const tdmi_run *run, tdmi_buffer buffer);
char *tdmi_work_address(const tdmi_run *run, tdmi_range range);

#endif
