/* hierarchical.h - the three phases of a hierarchical operation, piece by piece: hierarchical.c puts them in order.
 *
 * Every phase appends the steps of this rank for one piece. `acc` is where the piece's scratch begins; what it needs of it says
 * tdmi_lanes_need. Leaders' data of a piece lies in the order of blocks, each block's window of the own lane behind the other. */
#ifndef TDMI_COLL_HIERARCHICAL_H
#define TDMI_COLL_HIERARCHICAL_H

#include "coll/lanes.h"

/* Which sums the nodes make: partials of the canonical tree, in order. regular: one a node, and the tree goes on over the nodes. */
typedef struct tdmi_sums {
    int count, own_count;
    bool regular;
    tdmi_partial *partial; /* [n] */
} tdmi_sums;

typedef struct tdmi_job {
    tdmi_lanes w;
    tdmi_sums sums;
    const tdmi_algorithm *inner; /* between nodes; NULL: the default */
    tdmi_parts come;             /* of an alltoall: what comes to this node, while w.parts is what leaves it */
} tdmi_job;

typedef struct tdmi_piece {
    size_t number, acc;
} tdmi_piece;

/* Elements of this leader's data in a piece. */
static inline size_t tdmi_job_total(const tdmi_job *job, size_t piece)
{
    return tdmi_lanes_before(&job->w, job->w.parts.blocks, job->w.layout.index, piece);
}

typedef struct tdmi_phases {
    void (*collect)(tdmi_job *job, const tdmi_piece *piece); /* inside the node, to the leaders */
    void (*between)(tdmi_job *job, const tdmi_piece *piece); /* leaders only, of more than one node */
    void (*deliver)(tdmi_job *job, const tdmi_piece *piece); /* inside the node, from the leaders */
    tdmi_traffic (*cost)(const tdmi_job *job, size_t piece); /* of `between` */
} tdmi_phases;

/* hierarchical_sum.c */
extern const tdmi_phases tdmi_phases_allreduce, tdmi_phases_reduce, tdmi_phases_reduce_scatter;

/* hierarchical_partials.c. any_order: the call's sums may be reordered. `between` where sums are not regular, the place in ACC of
 * its result (of a reduce at the root's node, of a reduce_scatter), and its cost. */
tdmi_sums tdmi_sums_of(const tdmi_lanes *w, bool any_order, tdmi_partial *partial);
void tdmi_partials_between(tdmi_job *job, const tdmi_piece *piece);
size_t tdmi_partials_result(const tdmi_job *job, const tdmi_piece *piece);
tdmi_traffic tdmi_partials_cost(const tdmi_job *job, size_t piece);

/* hierarchical_move.c */
extern const tdmi_phases tdmi_phases_broadcast, tdmi_phases_all_gather, tdmi_phases_gather, tdmi_phases_scatter, tdmi_phases_alltoall;

#endif
