/* history.c - comparing what ranks have called. */
#include "coll/history.h"

#include <string.h>

static uint64_t number_in(const tdmi_slot *slot)
{
    return atomic_load_explicit(&slot->word, memory_order_acquire) >> TDMI_PHASE_BITS;
}

static uint64_t history_in(const tdmi_slot *slot)
{
    return atomic_load_explicit(&slot->history, memory_order_relaxed);
}

uint64_t tdmi_history_digest(const uint8_t signature[TDMI_SIGNATURE_BYTES])
{
    uint64_t h = 0;
    for (int i = 0; i < TDMI_SIGNATURE_BYTES; i += 8) {
        uint64_t word;
        memcpy(&word, signature + i, sizeof word);
        h = (h ^ word) * 0x9e3779b97f4a7c15ull;
        h ^= h >> 29;
    }
    return h;
}

tdm_status tdmi_history_mismatch(const tdmi_team *team, uint64_t number, int a, int b)
{
    uint64_t first = number;
    for (uint64_t k = 1; k < TDMI_SLOTS && k < number; k++) {
        const tdmi_slot *x = tdmi_team_slot(team, a, number - k), *y = tdmi_team_slot(team, b, number - k);
        if (number_in(x) != number - k || number_in(y) != number - k || history_in(x) == history_in(y))
            break;
        first = number - k;
    }
    const tdmi_slot *by_a = tdmi_team_slot(team, a, first), *by_b = tdmi_team_slot(team, b, first);
    if (memcmp(by_a->signature, by_b->signature, TDMI_SIGNATURE_BYTES) == 0) /* their slots are used again: both have compared meanwhile */
        return tdmi_fail(TDM_ERR_MISMATCH, "group %s: rank %d and rank %d have made different calls before call %llu; all ranks must "
                         "make the same calls in the same order", team->name, a, b, (unsigned long long)first);
    return tdmi_signature_mismatch(team->name, first, (tdmi_said){a, by_a->signature, by_a->label}, (tdmi_said){b, by_b->signature, by_b->label});
}

/* False: the slot holds another call by now. */
static bool read_history(const tdmi_slot *slot, uint64_t number, uint64_t *out)
{
    if (number_in(slot) != number)
        return false;
    *out = history_in(slot);
    atomic_thread_fence(memory_order_acquire); /* pairs with the release fence of whoever writes the slot again */
    return atomic_load_explicit(&slot->word, memory_order_relaxed) >> TDMI_PHASE_BITS == number;
}

tdm_status tdmi_history_check(const tdmi_team *team, uint64_t number)
{
    for (int r = 0; r < team->n; r++) {
        if (r == team->rank || team->board[r] == NULL)
            continue;
        const uint64_t started = atomic_load_explicit(&team->board[r]->started, memory_order_acquire);
        uint64_t own, theirs, at = started < number ? started : number;
        for (int k = 0; k < TDMI_SLOTS && at > 0; k++, at--) { /* a call by an engine has no slot */
            if (!read_history(tdmi_team_slot(team, team->rank, at), at, &own) || !read_history(tdmi_team_slot(team, r, at), at, &theirs))
                continue;
            if (own != theirs)
                return tdmi_history_mismatch(team, at, team->rank, r);
            break;
        }
    }
    return TDM_OK;
}
