/* signals.h - the signals of a process whose business is a job that it started: they come on a descriptor, and end nothing here. */
#ifndef TDMI_LAUNCH_SIGNALS_H
#define TDMI_LAUNCH_SIGNALS_H

#include "core/error.h"

#include <signal.h>

typedef struct tdmi_signals {
    int fd;              /* INT, TERM, HUP, QUIT, USR1, USR2 and CHLD as signalfd_siginfo, non-blocking; -1: not taken */
    bool ignores_hangup; /* nohup: HUP does not come, and stays ignored */
    sigset_t outer_mask; /* of the caller, for what is started */
    struct sigaction outer_pipe, outer_child;
} tdmi_signals;

/* Takes them from now on. SIGPIPE is ignored: who reads the output may go. */
tdm_status tdmi_signals_take(tdmi_signals *out);
/* As it was before; what came too late is dropped: it must not end the caller. Not taken is fine. */
void tdmi_signals_give_back(tdmi_signals *signals);

#endif
