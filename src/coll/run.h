/* run.h - one call under way: executes a step list, a bit at a time, never blocking on a peer. */
#ifndef TDMI_COLL_RUN_H
#define TDMI_COLL_RUN_H

#include "coll/team.h"

#define TDMI_FAR_BYTES ((size_t)32 << 10) /* read from a peer's process at a time, where it is summed from a copy */

/* Called with each finished piece of this rank's slice: `first` counts elements from the start of the whole buffer. */
typedef void (*tdmi_epilogue)(void *arg, size_t first, size_t count, const void *reduced);

typedef struct tdmi_request {
    tdmi_call call;
    const void *in;
    void *out;              /* NULL where fused */
    tdmi_epilogue epilogue; /* NULL: an ordinary call. Else reduce-scatter into tdmi_slice slices of [call.count] `in` */
    void *epilogue_arg;
} tdmi_request;

typedef enum {
    TDMI_RUN_ARRIVING, /* waits for a free slot on the board */
    TDMI_RUN_AGREEING, /* waits for all ranks, to learn which way to take */
    TDMI_RUN_STAGING,  /* waits for its turn with the links, or for a free stage block */
    TDMI_RUN_STEPPING,
    TDMI_RUN_SETTLING, /* waits for the calls of link peers */
    TDMI_RUN_OVER
} tdmi_run_state;

/* Memory of a run is kept from call to call. */
typedef struct tdmi_run {
    tdmi_team *team;
    tdmi_request request;  /* in may be a copy of the caller's */
    const void *in;        /* the caller's */
    uint64_t number;       /* of the call in the group, from 1 */
    uint64_t history;      /* of the calls up to this one: history.h */
    tdmi_label label;      /* the caller's name for it */
    tdmi_plan *plan;
    uint64_t ready;        /* number of the last plan that all memory was made for */
    const tdmi_way *way;   /* NULL until the ranks have agreed */
    tdmi_run_state state;
    size_t step;           /* of tdmi_way_steps() */
    uint32_t phase;        /* times published */
    unsigned behind;       /* of the meeting under way: how often peers may have published less */
    int met;               /* ranks below this one have been met in it */
    bool resolved;         /* peers' buffers are known */
    size_t at;             /* elements of the current step that are done */
    size_t sent, received, summed; /* bytes of the current exchange */
    size_t back, back_at;  /* the same of the background: up to step `back` nothing is left of it */
    size_t worked;         /* elements moved since it was looked at */
    int settled;           /* link peers up to this one have been compared */
    tdmi_stage *stage;     /* the one of this call's turn; NULL: it uses none */
    unsigned rotation;     /* of it, now */
    char *acc;             /* scratch, kept */
    size_t acc_nbytes;
    tdm_op op;             /* as the caller named it; held while the call is under way */
    char *prepared;        /* premultiplied input; in the arena where the ranks share memory; kept */
    size_t prepared_nbytes;
    char *padded;          /* fused where memory cannot be shared: padded input and own slice; input of an alltoall
                              in place; kept */
    size_t padded_nbytes;
    char **peer_in, **peer_out; /* [n], kept */
    char **peer_rows;      /* [n] of tdmi_row [n], where the call is pairwise */
    bool *is_far;          /* [2 n], kept: IN, then OUT of each rank is an address in its process, only to be read */
    char *far;             /* copies of far leaves of a sum, kept */
    size_t far_nbytes;
    int peers_capacity;
} tdmi_run;

/* Starts call `number`. Errors are the caller's: the call was not made, the number is free again. */
tdm_status tdmi_run_start(tdmi_run *run, tdmi_team *team, uint64_t number, const tdmi_request *request);
/* Starts the call that the run made last once more, with the same buffers and plan: in place of tdmi_run_end and _start. */
void tdmi_run_again(tdmi_run *run, uint64_t number);
/* What a call may take, seen from the calls before it: links carry one call after the other, and stage blocks are taken in the
 * order of calls (else an early call could wait for a block that a later one holds until the early one is over). */
typedef struct tdmi_turns {
    bool links, stage;
    int polls;      /* looks for a peer that this call may wait for, if its caller does nothing else */
    bool epilogues; /* may be called: not by the progress thread, whose time is not the caller's to use */
} tdmi_turns;

/* Does what can be done now, a piece of about 0.1 ms at most. *over: finished. *moved becomes true if something was done.
 * turns: what no earlier call of the group uses or may still want; if this call is not over, it takes away from it what the
 * calls behind must wait for. An error is the group's end. */
tdm_status tdmi_run_advance(tdmi_run *run, tdmi_turns *turns, bool *over, bool *moved);
/* Whether it is fused and reduces straight into the epilogue. */
static inline bool tdmi_run_hands_on(const tdmi_run *run)
{
    return run->request.epilogue != NULL && run->way->algorithm == NULL;
}
/* missing[r]: this call waits and rank r has not arrived at it. Returns how many. */
int tdmi_run_missing(const tdmi_run *run, bool *missing);
/* For a call that waits long: TDM_ERR_MISMATCH if a rank that has arrived makes another call. */
tdm_status tdmi_run_compare(const tdmi_run *run);
void tdmi_run_end(tdmi_run *run);  /* lets go of the plan; keeps memory for the next start */
void tdmi_run_free(tdmi_run *run); /* frees the memory; `run` itself is the caller's */

#endif
