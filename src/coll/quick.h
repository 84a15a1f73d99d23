/* quick.h - lists that use SLOT, by hand: one copy, one publication, one meeting, and what is to be taken. run.c sends with it too,
 * and takes step by step what was not there at once; tested equal. */
#ifndef TDMI_COLL_QUICK_H
#define TDMI_COLL_QUICK_H

#include "coll/run.h"

/* Writes the slot of call `number` and publishes. The slot is free. */
void tdmi_quick_send(tdmi_team *team, const tdmi_plan *plan, uint64_t number, uint64_t history, const tdmi_label *label, const void *in);
/* Whether all that this rank must meet are there, at once or after up to *polls more looks, which are taken off, with equal calls. */
bool tdmi_quick_met(const tdmi_team *team, const tdmi_plan *plan, uint64_t number, uint64_t history, int *polls);
/* The steps behind the meeting. */
void tdmi_quick_take(const tdmi_team *team, const tdmi_plan *plan, uint64_t number, const void *in, void *out);
/* The run of a call that was sent so. */
void tdmi_quick_hand_over(tdmi_run *run);

#endif
