/* team.h - what the calls of one group run on: who is where, and the ways to them. Made by group/, used by run.c.
 *
 * Everything here is touched with the group's lock held; boards are shared with other processes. */
#ifndef TDMI_COLL_TEAM_H
#define TDMI_COLL_TEAM_H

#include "coll/board.h"
#include "coll/plan.h"
#include "transport/channel.h"

#define TDMI_SEGMENT_BYTES ((size_t)128 << 10) /* stays in the second-level cache between arriving and being summed */

/* A block of TDMI_STAGE_BYTES of each rank. */
typedef struct tdmi_stage {
    char *own;         /* NULL until first used */
    char **block;      /* [n] everyone's, as seen from here; NULL until first used. Others' are unknown until a call has met */
    bool known;
    uint64_t call;     /* number of the last call that used it */
    unsigned rotation; /* STAGE of rank r is block[(r + rotation) % n] when the next call begins */
} tdmi_stage;

typedef struct tdmi_team {
    const char *name;       /* of the group, for messages; borrowed */
    const tdmi_label *label; /* of the calls that start now; borrowed; owner thread */
    int rank, n;
    const int *world_rank;  /* [n], numbers as the node knows them */
    tdmi_node *node;        /* NULL: no shared memory */
    tdmi_board **board;     /* [n]; NULL for ranks on other nodes. The array is NULL without a node */
    tdmi_topology topology; /* rank, n and the nodes, for step lists */
    bool is_local;          /* all ranks share memory (true for n == 1) */
    bool reads;             /* all ranks of the node can read each other's own memory */
    tdmi_stage stage[2];    /* what STAGE means, in turn */
    tdmi_row *rows;         /* [TDMI_SLOTS][n] of own; NULL until a call is pairwise */
    uint64_t peers_done;    /* every rank has finished all calls up to this one, as far as known, and made the same ones */
    uint64_t history;       /* of this rank's calls: history.h */
    tdmi_channel **channel; /* [n]; ways to the others, NULL for this rank itself. The array is NULL for n == 1 */
    char *segment;          /* TDMI_SEGMENT_BYTES: where data to be summed arrives; of the one call that uses links */
    uint64_t *arrived;      /* [n]; number of the last call that a rank on another node is known to have started */
    tdmi_plans plans;
} tdmi_team;

/* Where a rank of this node writes call `number`. */
static inline tdmi_slot *tdmi_team_slot(const tdmi_team *team, int rank, uint64_t number)
{
    return &team->board[rank]->slot[number % TDMI_SLOTS];
}
/* *done: every rank has finished all calls up to `number`. Reads the boards if it does not know yet, and compares what was called. */
tdm_status tdmi_team_done(tdmi_team *team, uint64_t number, bool *done);
/* Whether a rank shares memory with this one; itself too. */
static inline bool tdmi_team_shares(const tdmi_team *team, int rank)
{
    return rank == team->rank || (team->board != NULL && team->board[rank] != NULL);
}
/* What all ranks reach for any buffers (not SHARED, which depends on the buffers of a call). */
unsigned tdmi_team_reach(const tdmi_team *team);

#endif
