/* lanes.h - what hierarchical lists are made of: the cut of data into blocks, lanes and pieces, moves inside a node through STAGE,
 * and lists of other algorithms along a lane.
 *
 *   blocks   one a node, of the parts of its ranks; an operation without parts has one block
 *   slices   of every block, one a lane: leader i, the i-th rank of each node, sends and receives slice i of each block
 *   pieces   of every slice: piece k + 1 is on its way inside the nodes while piece k is between them
 *   segments of what a lane has to move inside a node in a piece: as much as fits STAGE, whose two slots are used in turn */
#ifndef TDMI_COLL_LANES_H
#define TDMI_COLL_LANES_H

#include "coll/layout.h"

/* Parts of ranks in the order of nodes, side by side. Equal on all ranks of a node. */
typedef struct tdmi_parts {
    int blocks;
    const int *first;  /* [blocks + 1] first part of each block */
    const int *rank;   /* [parts] whose it is */
    const size_t *at;  /* [parts + 1] element where it begins */
    size_t grain;      /* 0, or what a part is made of, and where stretches end */
} tdmi_parts;

typedef struct tdmi_lanes {
    tdmi_steps *s;
    const tdmi_call *call;
    tdmi_layout layout;
    tdmi_parts parts;
    int count;       /* lanes */
    size_t pieces;
    size_t length;   /* of one lane's segment */
    size_t meetings; /* behind an even number of them slot 0 is used */
} tdmi_lanes;

/* data: elements of all blocks together, about; the same on all ranks. */
tdmi_lanes tdmi_lanes_of(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology, size_t data, int blocks);

/* Whether this rank is the leader of a lane, which is then layout.index. */
bool tdmi_lanes_leads(const tdmi_lanes *w);
int tdmi_lanes_leader(const tdmi_lanes *w, int lane);
/* This lane's leader on another node. */
int tdmi_lanes_peer(const tdmi_lanes *w, int node);

/* Elements of a lane's slice of a block in a piece, counted from the start of all parts; buffer is OUT. */
tdmi_range tdmi_lanes_window(const tdmi_lanes *w, int block, int lane, size_t piece);
/* Elements of the windows of all blocks before this one, of all for parts.blocks. */
size_t tdmi_lanes_before(const tdmi_lanes *w, int block, int lane, size_t piece);

typedef enum { TDMI_BLOCKS_ALL, TDMI_BLOCKS_OWN, TDMI_BLOCKS_OTHERS } tdmi_blocks; /* of which nodes */

/* A run of elements of one part in one window. */
typedef struct tdmi_stretch {
    int block, rank;
    size_t in_part, in_window, count;
} tdmi_stretch;

/* A segment of what a lane has in the picked blocks of a piece, stretch by stretch:
 *     for (size_t at = 0; tdmi_lanes_stretch(w, blocks, lane, piece, segment, at, &stretch); at += stretch.count) */
bool tdmi_lanes_stretch(const tdmi_lanes *w, tdmi_blocks blocks, int lane, size_t piece, size_t segment, size_t at, tdmi_stretch *out);
size_t tdmi_lanes_segments(const tdmi_lanes *w, tdmi_blocks blocks, size_t piece);
/* Where a lane's current segment lies in STAGE from its `at` on. */
tdmi_range tdmi_lanes_stage(const tdmi_lanes *w, int lane, size_t at, size_t count);
/* The meeting behind which all ranks of the node read the segment. */
void tdmi_lanes_meet(tdmi_lanes *w);

/* Where a stretch comes from and goes to on this node, as all its ranks see it. */
typedef struct tdmi_flow {
    int from, to;   /* to -1: all ranks of the node */
    tdmi_range src; /* of this rank, if it is `from`. Sums in ACC are finished on the way */
    tdmi_range dst; /* of this rank, if it is `to` */
} tdmi_flow;
typedef tdmi_flow tdmi_flow_of(const tdmi_lanes *w, int lane, const tdmi_stretch *stretch, const void *arg);

/* Moves the picked blocks of a piece inside the node: through STAGE where some of it goes to another rank, else straight. */
void tdmi_lanes_move(tdmi_lanes *w, tdmi_blocks blocks, size_t piece, tdmi_flow_of *flow_of, const void *arg);

/* Where the buffers of a list along a lane lie. Its own copies out of IN are left out: the data is in place. */
typedef struct tdmi_along {
    const tdmi_algorithm *algorithm;
    const tdmi_call *call;
    tdmi_range data;   /* IN and OUT begin here */
    size_t acc;        /* ACC begins here */
    bool finishes;     /* else sums stay unfinished */
} tdmi_along;
void tdmi_lanes_along(tdmi_lanes *w, const tdmi_along *along);
void tdmi_lanes_need(tdmi_lanes *w, size_t acc); /* elements of ACC, in all */

#endif
