/* launcher.h - what the program that started this process says about its ranks, and where they can meet. docs/launch.md */
#ifndef TDMI_GROUP_LAUNCHER_H
#define TDMI_GROUP_LAUNCHER_H

#include "group/settings.h"

/* Rank, size, local rank and local size from the environment. */
tdm_status tdmi_launcher_ranks(tdmi_settings *settings);
/* Host, port and secret of the store, for the rank, size and local size that are there. */
tdm_status tdmi_launcher_meeting(tdmi_settings *settings);

/* slurm.c - "node[01-03,07],gpu5" -> "node01"; false: this is no list of hosts. */
bool tdmi_slurm_first_host(const char *list, char *host, size_t nbytes);
/* "2(x3),1" -> 2 for nodes 0 to 2, 1 for node 3; -1: it does not say. */
int tdmi_slurm_tasks_on(const char *list, int node);

#endif
