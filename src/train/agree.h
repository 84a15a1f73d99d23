/* agree.h - all ranks go on, or all stop with the same code and text. */
#ifndef TDMI_TRAIN_AGREE_H
#define TDMI_TRAIN_AGREE_H

#include "core/error.h"

#include <tandem/collective.h>

/* Collective: each rank brings the status of what it just did alone. Returns TDM_OK where all are, else the status of the
 * lowest rank that failed, with its text, and sets *everywhere. After an error of the group itself, that error. */
tdm_status tdmi_agree(tdm_group *group, tdm_status mine, bool *everywhere);

#endif
