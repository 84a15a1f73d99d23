/* syncs.h - where the host waits for the device. */
#ifndef TDMI_JOB_SYNCS_H
#define TDMI_JOB_SYNCS_H

#include "job/job.h"

/* Calls that wait, of all ranks, from one place of the program. Texts are borrowed from the traces. */
typedef struct tdmi_sync_site {
    const char *call; /* "cudaStreamSynchronize" */
    const char *op;   /* the outermost operator around it: "aten::item"; "" */
    const char *line; /* the innermost frame of the program's own Python: "train.py(41): step"; NULL: no stacks were recorded */
    int64_t count, blocked_ns;
} tdmi_sync_site;

typedef struct tdmi_syncs {
    tdmi_sync_site *of; /* the longest first */
    size_t count, capacity;
} tdmi_syncs;

tdm_status tdmi_syncs_find(const tdmi_job *job, tdmi_syncs *out);
void tdmi_syncs_free(tdmi_syncs *syncs);

/* A launch of a copy to the host that itself waits for it: pageable memory, or a call that is not asynchronous. */
bool tdmi_waits_for_copy(const tdmi_rank *rank, uint32_t call);

#endif
