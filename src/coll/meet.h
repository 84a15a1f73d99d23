/* meet.h - how the ranks of one node meet in a call. */
#ifndef TDMI_COLL_MEET_H
#define TDMI_COLL_MEET_H

#include "coll/run.h"

static inline tdmi_slot *tdmi_own_slot(const tdmi_run *run)
{
    return &run->team->board[run->team->rank]->slot[run->number % TDMI_SLOTS];
}

static inline const tdmi_slot *tdmi_slot_of(const tdmi_run *run, int rank)
{
    return &run->team->board[rank]->slot[run->number % TDMI_SLOTS];
}

static inline char *tdmi_slot_data(const tdmi_run *run, int rank)
{
    return (char *)run->team->board[rank]->slot[run->number % TDMI_SLOTS].data;
}

/* Says that all this rank has written so far may be read. */
void tdmi_publish(tdmi_run *run);
/* *met: all ranks of the node have published as often as this one, at once or after up to `polls` more looks. At the first meeting the calls
 * are compared and the peers' buffers become known. */
tdm_status tdmi_meet(tdmi_run *run, int polls, bool *met);

#endif
