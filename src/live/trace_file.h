/* trace_file.h - a trace goes to its place, and says from then on which rank it is of: traces over gloo that a daemon asked for do not. */
#ifndef TDMI_LIVE_TRACE_FILE_H
#define TDMI_LIVE_TRACE_FILE_H

#include "core/error.h"

/* Moves the trace, on any file system. rank < 0: as it is; else "distributedInfo" is put before what is in it, as PyTorch writes it
 * (where the trace has one of its own, that is the later one and counts). size < 0: not known. */
tdm_status tdmi_trace_file_move(const char *from, const char *to, int rank, int size);

#endif
