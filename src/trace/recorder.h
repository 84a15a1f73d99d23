/* recorder.h - the flight recorder: the last 1,024 calls of a rank in a file that outlives the process, however it ends.
 *
 * One a rank; a mapped file in a folder per job, removed when the rank ends well. What is written is there after SIGKILL, since
 * the pages belong to the kernel. A call costs a look at the counter, one more if it waits, and a cache line, two if it has a
 * label. docs/recorder.md.
 *
 * Threads: calls of one group are noted under that group's lock; groups of one rank share only the number of the next entry. */
#ifndef TDMI_TRACE_RECORDER_H
#define TDMI_TRACE_RECORDER_H

#include "core/clock.h"
#include "core/error.h"
#include "core/label.h"

#define TDMI_REC_NAMES 32 /* operations, types and reductions that a file can name */

typedef enum { TDMI_REC_OPEN = 1, TDMI_REC_FAILED = 2 } tdmi_rec_state;
typedef enum { TDMI_CALL_CREATED = 1, TDMI_CALL_STARTED = 2, TDMI_CALL_FINISHED = 3, TDMI_CALL_FAILED = 4 } tdmi_call_state;

typedef struct tdmi_recorder tdmi_recorder;

typedef struct tdmi_recorder_options {
    const char *job; /* names the folder */
    int rank, size;  /* in the world */
    const char *const *ops, *const *dtypes, *const *reductions; /* [TDMI_REC_NAMES], NULL: no such number */
} tdmi_recorder_options;

/* NULL: TANDEM_RECORDER_DIR is "off", or the file cannot be made, which the log says once a process. */
tdmi_recorder *tdmi_recorder_open(const tdmi_recorder_options *options);
/* Removes the file, and folders that are empty then. NULL is fine. */
void tdmi_recorder_close(tdmi_recorder *recorder);
/* The job's folder. */
const char *tdmi_recorder_folder(const tdmi_recorder *recorder);
/* The rank goes down with a group: the file says why, and a dump is written beside it, which stays. */
void tdmi_recorder_fail(tdmi_recorder *recorder, tdm_status status, const char *text);
/* The ring as JSON (docs/recorder.md). The file appears whole or not at all. */
tdm_status tdmi_recorder_dump(const tdmi_recorder *recorder, const char *path);

/* ---- calls ----
 * All zero: nothing is recorded. Guarded by the group's lock. */
typedef struct tdmi_recorder_group {
    tdmi_recorder *recorder;
    uint64_t id;
    uint32_t slot, left;
    uint64_t next; /* index, `left` of them */
    tdmi_quick_clock clock;
    tdmi_label label; /* of the calls that follow */
} tdmi_recorder_group;

/* id: the same on all ranks of the group, another for every group ever made. */
void tdmi_recorder_add_group(tdmi_recorder *recorder, const char *name, uint64_t id, int rank, int size, tdmi_recorder_group *out);
typedef struct tdmi_recorder_call {
    int op, dtype, reduction, root;
    bool fused, uneven;
    uint64_t count, number; /* number: of the call in its group */
} tdmi_recorder_call;

/* now_ns: when the call was made, which its caller knows. Gives the index of the entry, 0 where nothing is recorded. An index whose entry is a later call's by now is ignored. */
uint64_t tdmi_recorder_begin(tdmi_recorder_group *group, const tdmi_recorder_call *call, int64_t now_ns);
/* at_once: right after it was made; saves a look at the counter. */
void tdmi_recorder_started(tdmi_recorder_group *group, uint64_t index, bool at_once);
void tdmi_recorder_finished(tdmi_recorder_group *group, uint64_t index, tdmi_call_state state);
/* It waited for nobody, so it ended when it was made: saves a look, too. */
void tdmi_recorder_finished_at_once(tdmi_recorder_group *group, uint64_t index);
/* missing[r]: rank r has not arrived. For calls that wait long, and those that fail. */
void tdmi_recorder_arrivals(tdmi_recorder_group *group, uint64_t index, const bool *missing, int size);

#endif
