/* replay.h - runs the step lists of all ranks of a group in memory, without links, processes or time.
 *
 * Links are strict: a step is over when its message was taken and its own has come, and a message must fit the step that
 * takes it, so a list that passes here needs no buffering and cannot deadlock. Shared memory is checked for races: two ranks
 * may touch the same bytes, one of them writing, only with a meeting between; a caller touches all of its buffers before and
 * after each call, so returning early is a race too. What goes on in the background goes on as early as it can, or as late where the
 * seed is odd, and no other step may touch what it has still to do with. */
#ifndef TESTS_COLL_REPLAY_H
#define TESTS_COLL_REPLAY_H

#include "coll/steps.h"

typedef struct replay_buffers {
    void *in, *out; /* as the caller of the collective gives them */
} replay_buffers;

/* Runs `calls` equal calls one after the other on n ranks; of_rank[r] is the call as rank r makes it, buffers[c * n + r] are
 * those of rank r in call c. topology: without rank. `seed` decides which rank goes on when; `races` looks for races, in time that grows with the square of the steps. Returns NULL, or what
 * went wrong (static storage). */
const char *replay(const tdmi_algorithm *algorithm, const tdmi_call *of_rank, const tdmi_topology *topology, int calls,
                   const replay_buffers *buffers, unsigned seed, bool races);

/* Bytes of IN and OUT that a rank gives. */
size_t replay_in_bytes(const tdmi_call *call, int rank, int n);
size_t replay_out_bytes(const tdmi_call *call, int rank, int n);

#endif
