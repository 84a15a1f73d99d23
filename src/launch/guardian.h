/* guardian.h - a small process that outlives a killed launcher just long enough to end what it started. */
#ifndef TDMI_LAUNCH_GUARDIAN_H
#define TDMI_LAUNCH_GUARDIAN_H

#include "core/error.h"

#include <sys/types.h>

typedef struct tdmi_guardian {
    pid_t pid; /* not seen by wait() without __WCLONE */
    int pipe;
} tdmi_guardian;

/* entries: NAME=VALUE that all processes of the job have in their environment and no others have; borrowed. */
tdm_status tdmi_guardian_start(const char *const *entries, size_t count, tdmi_guardian *out);
/* Tells it of a rank that has started or has been reaped. */
void tdmi_guardian_tell(const tdmi_guardian *guardian, pid_t rank, bool alive);
/* All is over: the guardian ends and is reaped. */
void tdmi_guardian_dismiss(tdmi_guardian *guardian);
/* It does its work now: nothing of the job is left when this returns. */
void tdmi_guardian_strike(tdmi_guardian *guardian);

#endif
