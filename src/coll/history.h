/* history.h - one word for all calls that a rank has made in a group, in order: ranks that made the same have the same.
 *
 * It travels with every call on shared memory (board.h) and is compared in its place, so a call of which nobody waited for
 * somebody (the root of a short broadcast) is compared with the calls behind it, and at the latest before its slot is written
 * again. Until then the slots of both ranks say which call it was. */
#ifndef TDMI_COLL_HISTORY_H
#define TDMI_COLL_HISTORY_H

#include "coll/team.h"

uint64_t tdmi_history_digest(const uint8_t signature[TDMI_SIGNATURE_BYTES]);

static inline uint64_t tdmi_history_with(uint64_t history, uint64_t digest)
{
    const uint64_t h = ((history << 27 | history >> 37) + digest) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 32;
}

/* Ranks a and b have published in call `number`, with different histories: TDM_ERR_MISMATCH that names the first call that
 * differs, and both sides. */
tdm_status tdmi_history_mismatch(const tdmi_team *team, uint64_t number, int a, int b);
/* Compares this rank's calls up to `number`, as far as others have published in them. A rank that has written its slot again
 * has compared then. */
tdm_status tdmi_history_check(const tdmi_team *team, uint64_t number);

#endif
