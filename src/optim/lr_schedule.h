/* lr_schedule.h - learning rate of each step. */
#ifndef TDMI_OPTIM_LR_SCHEDULE_H
#define TDMI_OPTIM_LR_SCHEDULE_H

#include "core/error.h"

typedef enum { TDMI_SCHEDULE_CONSTANT, TDMI_SCHEDULE_LINEAR, TDMI_SCHEDULE_COSINE } tdmi_schedule_kind;

typedef struct tdmi_schedule {
    tdmi_schedule_kind kind;
    double lr;           /* the highest */
    double end_fraction; /* of lr at the last step: 0.1 for COSINE, 0 for LINEAR */
    int64_t warmup;      /* steps of linear warm-up: step k of them has lr k / warmup */
    int64_t steps;       /* of the whole run */
} tdmi_schedule;

tdm_status tdmi_schedule_parse(const char *name, tdmi_schedule_kind *out); /* "constant", "linear", "cosine" */
const char *tdmi_schedule_name(tdmi_schedule_kind kind);
/* step counts from 1. */
double tdmi_schedule_lr(const tdmi_schedule *schedule, int64_t step);

#endif
