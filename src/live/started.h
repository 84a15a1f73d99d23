/* started.h - a command as the user's own, but for where its PyTorch looks for a daemon. */
#ifndef TDMI_LIVE_STARTED_H
#define TDMI_LIVE_STARTED_H

#include "launch/guardian.h"
#include "live/folder.h"

#include <signal.h>
#include <stdbool.h>

typedef struct tdmi_started {
    pid_t pid;  /* leads a POSIX session of its own; 0: nothing was started */
    bool ended; /* reaped */
    int status; /* of wait(), once ended */
    tdmi_guardian guardian; /* should this process be killed, it kills all that has `mark` in its environment */
    char mark[96];
    const char *marks[1];
} tdmi_started;

typedef struct tdmi_start {
    const char *const *argv; /* NULL at the end */
    const tdmi_folder *folder;
    const sigset_t *mask;    /* of its signals */
    int output;              /* descriptor for its stdout; -1: this process's */
    bool ignore_hangup;      /* nohup stays in force */
} tdmi_start;

/* Errors  TDM_ERR_INVALID no such command | TDM_ERR_SYSTEM */
tdm_status tdmi_started_begin(const tdmi_start *start, tdmi_started *out);
void tdmi_started_signal(const tdmi_started *started, int signal); /* to its process group: children may have groups of their own */
void tdmi_started_reap(tdmi_started *started);                     /* notes its end, if it has ended */
/* Kills what is left of it after `grace_s`, and lets the guardian go. */
void tdmi_started_end(tdmi_started *started, double grace_s);

#endif
