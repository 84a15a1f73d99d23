/* live.h - a job that is looked into: its daemon, its processes, and one loop over what happens. */
#ifndef TDMI_LIVE_LIVE_H
#define TDMI_LIVE_LIVE_H

#include <tandem/doctor.h>

#include "launch/signals.h"
#include "live/daemon.h"
#include "live/roll.h"
#include "live/started.h"

struct tdm_live {
    tdm_live_options options;
    tdmi_folder folder;
    tdmi_daemon daemon;
    tdmi_started job;       /* pid 0: joined */
    tdmi_target target;
    tdmi_roll roll;         /* as of the last call */
    int64_t period_ns;      /* of polls, as the job was told; what is seen of it counts more */
    tdmi_signals signals;
    int interrupted;        /* the signal that asked to end; 0: none */
    bool under_way;         /* some rank was given a request that may still be carried out */
    char **paths;           /* [path_count] of traces that are there */
    int path_count;
};

/* Waits up to timeout_ms for something to happen and deals with it. */
void tdmi_live_turn(tdm_live *live, int timeout_ms);
/* TDM_OK, or why there is no use in waiting: the job has ended, or somebody asked to end. */
tdm_status tdmi_live_goes_on(const tdm_live *live);
/* Turns for so long, or until that. */
tdm_status tdmi_live_pause(tdm_live *live, int64_t pause_ns);
/* Looks for the job's processes again, and forgets those that have ended. */
tdm_status tdmi_live_look_around(tdm_live *live);
void tdmi_live_say(const tdm_live *live, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
