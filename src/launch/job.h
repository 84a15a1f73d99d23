/* job.h - a job on this node, as its launcher sees it: made by launch.c, seen to its end by supervise.c. */
#ifndef TDMI_LAUNCH_JOB_H
#define TDMI_LAUNCH_JOB_H

#include "launch/guardian.h"
#include "launch/nodes.h"
#include "launch/options.h"
#include "launch/output.h"
#include "launch/placement.h"
#include "launch/program.h"
#include "launch/signals.h"

#include <poll.h>
#include <sys/types.h>

typedef enum { TDMI_JOB_RUNNING, TDMI_JOB_ENDING, TDMI_JOB_KILLING } tdmi_job_phase;

typedef struct tdmi_local_rank {
    pid_t pid;      /* 0: reaped, or never started */
    int rank;       /* in the job */
    int streams[2]; /* of output; -1: not carried */
    int status;     /* of wait() */
} tdmi_local_rank;

typedef struct tdmi_job {
    const tdm_launch_options *options;
    tdmi_job_shape shape;
    char secret[256];
    tdmi_program program;
    tdmi_placement placement;
    tdmi_output *output;
    tdmi_nodes *nodes; /* NULL: one node */
    tdmi_guardian guardian;
    char guard_text[3][192];
    const char *guard_entries[3];
    tdmi_local_rank *ranks; /* [shape.local_size] */
    int alive;
    int port_holder; /* descriptor */
    tdmi_signals signals;
    struct pollfd *items;
    /* supervise.c */
    tdmi_job_phase phase;
    int64_t phase_ends_ns, kill_ends_ns;
    double grace_s;           /* of this end */
    int signal_count;         /* of those that end a job */
    int exit_code;            /* -1: not known yet */
    tdmi_local_rank *culprit; /* a failed rank that will be named at verdict_ns, unless a better one shows up */
    int64_t verdict_ns;
    bool node_end_seen;
} tdmi_job;

/* Until nothing of the job is left, here and, when all went well, on the other nodes. Sets exit_code. */
void tdmi_job_supervise(tdmi_job *job);
/* Ends what has been started of a job that did not come to be. */
void tdmi_job_kill(tdmi_job *job);

#endif
