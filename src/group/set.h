/* set.h - coalesced calls that belong together: what coalesce.c and set.c share. */
#ifndef TDMI_GROUP_SET_H
#define TDMI_GROUP_SET_H

#include "group/group.h"

/* Calls [first, first + count) of a set, made as one. */
typedef struct tdmi_piece {
    size_t first, count;
    tdmi_call call;    /* packed */
    tdm_work *work;
    bool gathered;     /* an engine starts it together with others, at the end */
    bool moved;        /* results are where the caller wants them */
    char *in, *out;    /* packed; in == out where the operation allows it. In `memory` */
    char *memory;      /* kept; in the arena where the ranks share memory */
    size_t nbytes;
} tdmi_piece;

struct tdmi_set {
    tdmi_set *next;        /* in the group's list of idle sets */
    tdmi_set *next_made;   /* in the list of all sets the group ever made */
    tdm_group *group;
    tdmi_request *request; /* calls as they were made, of pieces that are packed */
    size_t request_count, request_capacity;
    tdmi_piece *piece;
    size_t piece_count, piece_capacity;
    atomic_size_t left;    /* pieces that on_done waits for */
    tdm_done on_done;
    void *on_done_arg;
    tdm_status status;     /* of those that are over */
};

/* ---- coalesce.c ---- */
/* Between the callers' buffers and the packed ones. */
void tdmi_set_move(const tdm_group *group, const tdmi_set *set, const tdmi_piece *piece, bool results);

/* ---- set.c ---- */
/* Starts the pieces that an engine starts together. */
tdm_status tdmi_set_start_gathered(tdm_group *group, tdmi_set *set);
/* Waits for every piece; the first error counts. */
tdm_status tdmi_set_wait_all(tdm_group *group, tdmi_set *set);
void tdmi_set_give_back(tdm_group *group, tdmi_set *set);

#endif
