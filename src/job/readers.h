/* readers.h - what belongs to bringing values from the device to the host: aten::item and its like, waiting copies, the operators around. */
#ifndef TDMI_JOB_READERS_H
#define TDMI_JOB_READERS_H

#include "job/job.h"

typedef struct tdmi_readers {
    uint8_t **is_part; /* [rank][event] 1: a call within such an operator, or the copy that it launched */
    size_t ranks;
} tdmi_readers;

tdm_status tdmi_readers_find(const tdmi_job *job, tdmi_readers *out);
void tdmi_readers_free(tdmi_readers *readers);

#endif
