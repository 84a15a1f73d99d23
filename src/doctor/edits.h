/* edits.h - a job with some of its events changed: which kernels would be shorter, which calls would not be made, for a replay. */
#ifndef TDMI_DOCTOR_EDITS_H
#define TDMI_DOCTOR_EDITS_H

#include "doctor/finding.h"

/* What becomes of an event. Set what changes in tdmi_edit_none(). */
typedef struct tdmi_edit {
    double device;       /* times what a kernel, copy or transfer takes */
    int64_t device_ns;   /* or this; -1 */
    double host;         /* times the way to a call, and the call */
    int64_t host_most_ns; /* and no longer than this; -1 */
    bool no_gap;         /* nothing between it and the kernel before */
    bool replanned;      /* a collective: it waits for what a PREFETCH link says, not for its launch and the computation before it */
    bool own_stream;     /* nor for what was before it on its stream */
    bool never_waits;    /* a call that does not wait for the device */
} tdmi_edit;

tdmi_edit tdmi_edit_none(void);

typedef struct tdmi_edits {
    tdmi_edit *edit; /* 0: none */
    size_t count, capacity;
    uint32_t **of;   /* [rank][event] -> edit */
    size_t ranks;
    unsigned also;   /* of tdmi_variation */
    const int64_t *plan_ns; /* of each planned bucket: what comes between its gradients and the last transfer; with TDMI_DUE_PLAN; borrowed */
} tdmi_edits;

/* TDM_ERR_NO_MEMORY is the only error of both. */
tdm_status tdmi_edits_create(const tdmi_job *job, tdmi_edits *out);
/* A new edit, for the events that are marked with it. */
tdm_status tdmi_edits_add(tdmi_edits *edits, const tdmi_edit *edit, uint32_t *out);
void tdmi_edits_free(tdmi_edits *edits);
static inline void tdmi_edits_mark(tdmi_edits *edits, size_t place, uint32_t event, uint32_t edit)
{
    edits->of[place][event] = edit;
}

void tdmi_edits_gain(const tdmi_edits *edits, tdmi_model *model, tdmi_gain *out);
/* What a model is unsure of: gain.low and .high also take in those of two other runs. */
void tdmi_gain_widen(tdmi_gain *gain, const tdmi_gain *other);

#endif
