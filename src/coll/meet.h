/* meet.h - how the ranks of one node meet in a call. */
#ifndef TDMI_COLL_MEET_H
#define TDMI_COLL_MEET_H

#include "coll/run.h"

#include <string.h>

static inline tdmi_slot *tdmi_own_slot(const tdmi_run *run)
{
    return tdmi_team_slot(run->team, run->team->rank, run->number);
}

static inline const tdmi_slot *tdmi_slot_of(const tdmi_run *run, int rank)
{
    return tdmi_team_slot(run->team, rank, run->number);
}

static inline char *tdmi_slot_data(const tdmi_run *run, int rank)
{
    return (char *)tdmi_team_slot(run->team, rank, run->number)->data;
}

static inline uint64_t tdmi_history_of(const tdmi_run *run, int rank)
{
    return atomic_load_explicit(&tdmi_slot_of(run, rank)->history, memory_order_relaxed); /* behind an acquire of `word` */
}

/* The slot is this call's from now on. */
static inline void tdmi_slot_open(tdmi_slot *slot, uint64_t history, const uint8_t signature[TDMI_SIGNATURE_BYTES], const tdmi_label *label)
{
    atomic_store_explicit(&slot->word, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* pairs with the acquire fence in history.c: what follows is not of the old call */
    atomic_store_explicit(&slot->history, history, memory_order_relaxed);
    memcpy(slot->signature, signature, sizeof slot->signature);
    tdmi_label_put(label, slot->label);
}

/* Wakes who sleeps. */
void tdmi_ring_all(const tdmi_team *team);
/* Says that all this rank has written so far may be read. */
void tdmi_publish(tdmi_run *run);
/* *met: rank `from`, or if it is -1 all ranks of the node, have published as often as this one, or run->behind times less, at once or
 * after up to `polls` more looks. At the first meeting the calls are compared and, of all ranks, the buffers become known. */
tdm_status tdmi_meet(tdmi_run *run, int from, int polls, bool *met);

#endif
