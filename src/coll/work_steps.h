/* work_steps.h - the steps that move and sum data, as opposed to those that meet. */
#ifndef TDMI_COLL_WORK_STEPS_H
#define TDMI_COLL_WORK_STEPS_H

#include "coll/run.h"

/* Does a piece of the step, from run->at on. True when it is done. */
bool tdmi_work_step(tdmi_run *run, const tdmi_step *step);

#endif
