/* crew.h - the ranks of a live job that are looked at. */
#ifndef TDMI_LIVE_CREW_H
#define TDMI_LIVE_CREW_H

#include "live/ask.h"

typedef struct tdmi_crew {
    tdmi_seat *seats; /* [count], by rank; room for TDMI_SEATS_MAX */
    size_t count;
    bool has_ranks;   /* else: processes that ask, numbered as they came */
} tdmi_crew;

/* Seats the ranks that ask; without any, all that ask. */
void tdmi_crew_seat(tdmi_crew *crew, const tdm_live *live);
/* Waits until all ranks of this machine ask, or have had their time; those that are late or missing are named.
 * Errors  those of tdmi_live_goes_on | TDM_ERR_TIMEOUT none came | TDM_ERR_PEER_LOST one is stopped: the others wait for it */
tdm_status tdmi_crew_muster(tdmi_crew *crew, tdm_live *live);
/* Says where there are ranks on other machines, which have daemons of their own. */
void tdmi_crew_introduce(const tdmi_crew *crew, const tdm_live *live);
/* WORLD_SIZE of the ranks; -1: they do not say. */
int tdmi_world_size(const tdm_live *live);

#endif
