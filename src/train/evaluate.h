/* evaluate.h - the loss on held-out windows: each window once over all ranks, summed in the windows' order, so that the
 * number does not depend on how many ranks there are. */
#ifndef TDMI_TRAIN_EVALUATE_H
#define TDMI_TRAIN_EVALUATE_H

#include "data/tokens.h"
#include "exec/exec.h"
#include "models/model.h"

#define TDMI_EVALUATION_WINDOWS 256 /* at most; spread evenly over the held-out part */

typedef struct tdmi_evaluation tdmi_evaluation;

/* Uses the parameters of `training`, in its precision, which it borrows with the group and the windows. */
tdm_status tdmi_evaluation_create(const tdmi_model *model, const tdmi_model_config *config, tdm_dtype precision,
                                  const tdmi_windows *windows, tdm_group *group, tdmi_exec *training, const atomic_int *interrupt, tdmi_evaluation **out);
void tdmi_evaluation_destroy(tdmi_evaluation *evaluation);
/* Collective. The mean loss of a token in nats, the same on all ranks. */
tdm_status tdmi_evaluation_run(tdmi_evaluation *evaluation, double *loss_out);
uint64_t tdmi_evaluation_windows(const tdmi_evaluation *evaluation);

#endif
