/* plan.h - step lists of a group's calls, kept: a call that was made before costs a look-up and no allocation. */
#ifndef TDMI_COLL_PLAN_H
#define TDMI_COLL_PLAN_H

#include "coll/signature.h"

/* One way to do a call. */
typedef struct tdmi_way {
    const tdmi_algorithm *algorithm; /* NULL: there is none, `tdmi_select` says why */
    tdmi_steps steps;
    tdmi_steps back; /* for calls of even number where `steps` turns; else empty */
    char why[TDMI_WHY_MAX]; /* this algorithm */
    bool uses_stage, uses_slot;
    bool takes_in, gives_out; /* steps of it touch the caller's IN, OUT */
    unsigned rotations; /* of STAGE, in the whole list */
    bool uses_links;  /* also when it moves nothing: then the ranks only compare their calls */
    int *link_peers;  /* ranks whose calls are compared over links: those it exchanges with or might, and both neighbours, so
                         that a rank that moves nothing is compared too. Symmetric where the calls agree */
    int link_peer_count;
} tdmi_way;

/* The list of call `number`, the same on all ranks. What the last call left in the cache, or whoever filled the buffer, is used
 * before it is pushed out. */
static inline const tdmi_steps *tdmi_way_steps(const tdmi_way *way, uint64_t number)
{
    return way->back.count > 0 && number % 2 == 0 ? &way->back : &way->steps;
}

typedef struct tdmi_plan {
    struct tdmi_plan *next; /* in its bucket */
    tdmi_call call;    /* its counts, if any, are the plan's own */
    size_t *counts;
    bool fused;
    uint8_t signature[TDMI_SIGNATURE_BYTES]; /* as all ranks on this node read it */
    uint64_t digest;   /* of it, for history.h */
    uint64_t number;   /* of all that the group ever made, from 1 */
    int users;         /* calls under way */
    /* The way to go, or where `agrees`: the way if every rank's buffers turn out to be reachable. It then begins with PUBLISH
     * and MEET, by which the ranks find out, and `otherwise` is the way if not. */
    tdmi_way way, otherwise;
    bool agrees;
} tdmi_plan;

#define TDMI_PLAN_BUCKETS 256

typedef struct tdmi_plans {
    tdmi_plan *bucket[TDMI_PLAN_BUCKETS];
    size_t count;
    tdmi_plan *last; /* asked for; NULL: dropped since */
    uint64_t made;
} tdmi_plans;

/* The plan of this call. reach: what all ranks have in common whatever the buffers; can_share: they may also
 * reach each other's buffers. fused: reduce-scatter into tdmi_slice slices with an epilogue; call.count is then the whole. */
tdm_status tdmi_plans_get(tdmi_plans *plans, const tdmi_call *call, bool fused, const tdmi_topology *topology, unsigned reach,
                          bool can_share, tdmi_plan **out);
/* The same if it was made before; else NULL. */
tdmi_plan *tdmi_plans_find(tdmi_plans *plans, const tdmi_call *call, bool fused, int n);
void tdmi_plans_free(tdmi_plans *plans);

#endif
