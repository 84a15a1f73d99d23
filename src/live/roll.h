/* roll.h - which processes of this machine are the job. */
#ifndef TDMI_LIVE_ROLL_H
#define TDMI_LIVE_ROLL_H

#include "live/who.h"

#include <stddef.h>

/* A process and all below it, or all processes whose environment names the job. */
typedef struct tdmi_target {
    pid_t root;       /* 0: by name */
    char job[128];
    char master[160]; /* with a job's name: of several jobs of one name, this one; "": any */
} tdmi_target;

typedef struct tdmi_roll {
    tdmi_who *of; /* [count] */
    size_t count;
} tdmi_roll;

/* The processes of the target now; NULL: all that have a RANK. Those that cannot be looked into are left out.   Errors  TDM_ERR_NO_MEMORY */
tdm_status tdmi_roll_call(const tdmi_target *target, tdmi_roll *out);
void tdmi_roll_free(tdmi_roll *roll);
/* Whether a process is of the target, and its RANK (-1: none). pids: itself, then those above it. */
bool tdmi_target_has(const tdmi_target *target, const pid_t *pids, int count, int *rank_out);
/* How many ranks there should be on this machine: LOCAL_WORLD_SIZE if a rank has it, else the ranks there are. */
int tdmi_roll_expected(const tdmi_roll *roll);

/* Finds what a user calls PID or JOB: a rank stands for its whole job, torchrun and what is above it for the ranks below it.
 * roll_out: its processes, at least one of which listens; freed by the caller.
 * Errors  TDM_ERR_INVALID there is no such process or job, several have this name, it is another user's, it lives in another container,
 *         or it does not listen (says how to start it) */
tdm_status tdmi_target_find(const char *text, tdmi_target *out, tdmi_roll *roll_out);

#endif
