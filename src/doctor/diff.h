/* diff.h - two jobs beside each other: what an iteration takes in each, by part, phase, kernel, operator and collective. */
#ifndef TDMI_DOCTOR_DIFF_H
#define TDMI_DOCTOR_DIFF_H

#include "doctor/diagnosis.h"

#include <stdio.h>

/* One thing that both or one of the jobs do, for an iteration of a rank: the mean over iterations and ranks. */
typedef struct tdmi_difference {
    const char *name;      /* borrowed from the traces */
    double count[2], ns[2];
} tdmi_difference;

typedef struct tdmi_differences {
    tdmi_difference *of; /* the largest change of time first */
    size_t count;
} tdmi_differences;

/* What is told apart. */
typedef enum { TDMI_DIFF_KERNELS, TDMI_DIFF_OPERATORS, TDMI_DIFF_COLLECTIVES, TDMI_DIFF_KINDS } tdmi_diff_kind;

/* TDM_ERR_NO_MEMORY is the only error. */
tdm_status tdmi_differences_find(tdmi_diagnosis *const side[2], tdmi_diff_kind kind, tdmi_differences *out);
void tdmi_differences_free(tdmi_differences *differences);

/* diff_report.c - for people in 100 columns, and as an object (new reference; NULL: no memory). names: how the two are called. */
tdm_status tdmi_diff_text(tdmi_diagnosis *const side[2], const char *const names[2], FILE *out);
json_t *tdmi_diff_json(tdmi_diagnosis *const side[2]);

#endif
