/* diagnosis.h - a job's traces read and understood, and every finding asked: what reports are written from. */
#ifndef TDMI_DOCTOR_DIAGNOSIS_H
#define TDMI_DOCTOR_DIAGNOSIS_H

#include "doctor/finding.h"

typedef struct tdmi_diagnosis {
    tdmi_job_traces *traces;
    tdmi_job *job;
    tdmi_breakdown breakdown;
    tdmi_case c; /* of the three */
    tdmi_findings findings;
} tdmi_diagnosis;

/* Files and folders of one job; memory_bytes is for all of it; 0: half of this machine's. Errors: those of tdmi_job_traces_read. */
tdm_status tdmi_diagnose(const char *const *paths, int count, size_t memory_bytes, tdmi_diagnosis **out);
void tdmi_diagnosis_free(tdmi_diagnosis *diagnosis); /* NULL is fine */

#endif
