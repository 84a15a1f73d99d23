/* recording.h - what a rank's flight recorder held, read from a ring's bytes, written as JSON (docs/recorder.md). */
#ifndef TDMI_TRACE_RECORDING_H
#define TDMI_TRACE_RECORDING_H

#include "trace/recorder.h"

#include <stdio.h>

typedef struct tdmi_recorded_call {
    uint64_t index, number, count; /* index: of the entry; number: in its group; both from 1 */
    uint64_t group_id;
    char group[96], op[48], dtype[24], reduction[16], label[TDMI_LABEL_BYTES];
    bool fused, uneven, label_is_place; /* label_is_place: "train.py:31 in step" */
    int group_rank, group_size, root;
    tdmi_call_state state;
    int64_t created_ns, started_ns, finished_ns, missed_ns; /* time of day; 0: it has not happened */
    int missing, first_missing; /* ranks that had not arrived when the call was looked at last */
    uint64_t arrived;           /* bit r: rank r had; of the first 64 */
} tdmi_recorded_call;

typedef struct tdmi_recording {
    int rank, size, pid;
    uint64_t birth;
    bool failed;
    tdm_status status;
    char host[72], boot[40], job[72], error[TDMI_ERROR_TEXT_MAX];
    tdmi_recorded_call *call; /* by the time they were made */
    size_t count;
} tdmi_recording;

/* A copy: nothing points into `bytes`. What is no ring, or damaged, is TDM_ERR_BAD_FILE; entries that were just being written
 * are left out. Any bytes are safe. */
tdm_status tdmi_recording_parse(const uint8_t *bytes, size_t nbytes, tdmi_recording *out);
void tdmi_recording_put_json(const tdmi_recording *recording, FILE *file);
/* The same as a file that appears whole or not at all. */
tdm_status tdmi_recording_write_json(const tdmi_recording *recording, const char *path);
void tdmi_recording_free(tdmi_recording *recording);

#endif
