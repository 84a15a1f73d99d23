/* plan.c - making and keeping plans. */
#include "coll/plan.h"

#include "coll/algorithm.h"
#include "coll/history.h"
#include "coll/slice.h"
#include "core/memory.h"

#include <string.h>

#define PLANS_MAX 1024

static uint64_t mix(uint64_t h, const size_t *counts, int n)
{
    for (int i = 0; counts != NULL && i < n; i++)
        h = (h ^ counts[i]) * 0x9e3779b97f4a7c15ull;
    return h;
}

static size_t bucket_of(const tdmi_call *call, bool fused, int n)
{
    uint64_t h = call->uneven ? mix(mix((uint64_t)call->count, call->in_counts, n), call->out_counts, n) : (uint64_t)call->count;
    h = (h ^ ((uint64_t)call->coll << 56) ^ ((uint64_t)call->dtype << 48) ^ ((uint64_t)call->op << 40) ^
         ((uint64_t)(uint32_t)call->root << 8) ^ (fused ? 1 : 0)) * 0x9e3779b97f4a7c15ull;
    return (size_t)(h >> 56) % TDMI_PLAN_BUCKETS;
}

static bool same_counts(const size_t *a, const size_t *b, int n)
{
    return (a == NULL) == (b == NULL) && (a == NULL || memcmp(a, b, (size_t)n * sizeof *a) == 0);
}

static bool same(const tdmi_plan *plan, const tdmi_call *call, bool fused, int n)
{
    const tdmi_call *own = &plan->call;
    return own->coll == call->coll && own->dtype == call->dtype && own->op == call->op && own->root == call->root &&
           own->count == call->count && plan->fused == fused && own->uneven == call->uneven && own->on_device == call->on_device &&
           (call->uneven || own->parts_hash == call->parts_hash) &&
           (!call->uneven ||
            (same_counts(own->in_counts, call->in_counts, n) && same_counts(own->out_counts, call->out_counts, n)));
}

/* The plan outlives the caller's arrays. */
static tdm_status own_call(tdmi_plan *plan, const tdmi_call *call, int n)
{
    plan->call = *call;
    if (!call->uneven)
        return TDM_OK;
    plan->counts = tdmi_calloc(2 * (size_t)n, sizeof *plan->counts, "coll plan");
    if (plan->counts == NULL)
        return TDM_ERR_NO_MEMORY;
    if (call->in_counts != NULL)
        plan->call.in_counts = memcpy(plan->counts, call->in_counts, (size_t)n * sizeof *plan->counts);
    if (call->out_counts != NULL)
        plan->call.out_counts = memcpy(plan->counts + n, call->out_counts, (size_t)n * sizeof *plan->counts);
    if (!tdmi_call_is_pairwise(call))
        tdmi_call_note_parts(&plan->call, n);
    return TDM_OK;
}

static void free_plan(tdmi_plan *plan)
{
    tdmi_steps_free(&plan->way.steps);
    tdmi_steps_free(&plan->way.back);
    tdmi_steps_free(&plan->otherwise.steps);
    tdmi_steps_free(&plan->otherwise.back);
    tdmi_free(plan->counts);
    tdmi_free(plan->way.link_peers);
    tdmi_free(plan->otherwise.link_peers);
    tdmi_free(plan);
}

static void drop_unused(tdmi_plans *plans)
{
    plans->last = NULL;
    for (size_t b = 0; b < TDMI_PLAN_BUCKETS; b++)
        for (tdmi_plan **at = &plans->bucket[b]; *at != NULL;) {
            tdmi_plan *plan = *at;
            if (plan->users > 0) {
                at = &plan->next;
                continue;
            }
            *at = plan->next;
            plans->count--;
            free_plan(plan);
        }
}

void tdmi_plans_free(tdmi_plans *plans)
{
    for (size_t b = 0; b < TDMI_PLAN_BUCKETS; b++)
        while (plans->bucket[b] != NULL) {
            tdmi_plan *plan = plans->bucket[b];
            plans->bucket[b] = plan->next;
            free_plan(plan);
        }
    plans->count = 0;
}

/* Where only pairs know their parts, all pairs compare, also those that move nothing: one side may think otherwise. */
static bool compares(const tdmi_call *call, int rank, int peer)
{
    return tdmi_call_is_pairwise(call) && (call->coll == TDMI_COLL_ALLTOALL || rank == call->root || peer == call->root);
}

static tdm_status note_link_peers(tdmi_way *way, const tdmi_call *call, int rank, int n)
{
    bool peer[n];
    for (int r = 0; r < n; r++)
        peer[r] = compares(call, rank, r);
    peer[(rank + 1) % n] = peer[(rank + n - 1) % n] = true;
    for (size_t i = 0; i < way->steps.count; i++) {
        const tdmi_step *step = &way->steps.step[i];
        if (step->kind != TDMI_STEP_EXCHANGE && step->kind != TDMI_STEP_EXCHANGE_REDUCE)
            continue;
        if (step->to >= 0)
            peer[step->to] = true;
        if (step->from >= 0)
            peer[step->from] = true;
    }
    peer[rank] = false;
    way->link_peers = tdmi_calloc((size_t)n, sizeof *way->link_peers, "coll plan");
    if (way->link_peers == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int r = 0; r < n; r++)
        if (peer[r])
            way->link_peers[way->link_peer_count++] = r;
    return TDM_OK;
}

static tdm_status note_needs(tdmi_way *way, const tdmi_call *call, int rank, int n)
{
    for (size_t i = 0; i < way->steps.count; i++) {
        const tdmi_step *step = &way->steps.step[i];
        way->takes_in |= step->src.buffer == TDMI_BUFFER_IN && step->src.count > 0;
        way->takes_in |= step->own.buffer == TDMI_BUFFER_IN && step->own.count > 0;
        way->gives_out |= step->dst.buffer == TDMI_BUFFER_OUT && step->dst.count > 0;
        way->rotations += step->kind == TDMI_STEP_ROTATE ? 1 : 0;
    }
    way->uses_stage = way->steps.stage_count > 0; /* a rank with nothing to move takes its turn with the others */
    way->uses_slot = n > 1 && way->algorithm != NULL && (way->algorithm->needs & TDMI_NEEDS_SLOT) != 0;
    way->uses_links = n > 1 && way->algorithm != NULL && (way->algorithm->needs & (TDMI_NEEDS_LINKS | TDMI_NEEDS_NODE)) != 0;
    return way->uses_links ? note_link_peers(way, call, rank, n) : TDM_OK;
}

/* Every rank reduces its slice and hands it on tile by tile; the buffers are free again after the second meeting. */
static void fused_steps(tdmi_steps *s, const tdmi_call *call, int rank, int n)
{
    size_t first, count;
    tdmi_slice(call->count, call->dtype, rank, n, &first, &count);
    tdmi_steps_meet(s);
    if (count > 0)
        tdmi_steps_add(s, (tdmi_step){.kind = TDMI_STEP_REDUCE_FROM, .to = -1, .from = -1,
                                      .src = tdmi_range_of(TDMI_BUFFER_IN, first, count)});
    tdmi_steps_meet(s);
}

static tdm_status make_way(const tdmi_call *call, const tdmi_topology *topology, unsigned reach, tdmi_way *out)
{
    tdm_status status = tdmi_select(call, topology, reach, &out->algorithm, out->why);
    if (status != TDM_OK)
        return status;
    out->algorithm->steps(&out->steps, call, topology);
    if (out->steps.turns) {
        out->back.backwards = true;
        out->algorithm->steps(&out->back, call, topology);
    }
    if (out->back.status != TDM_OK)
        return out->back.status;
    return out->steps.status != TDM_OK ? out->steps.status : note_needs(out, call, topology->rank, topology->n);
}

/* What a fused call does where buffers cannot be shared: equal parts of a padded buffer. */
static tdmi_call padded_call(const tdmi_call *call, int n)
{
    tdmi_call padded = *call;
    padded.count = tdmi_slice_each(call->count, call->dtype, n);
    return padded;
}

/* A barrier that compares the call; what pairs compare is not in slots that go with it. Of a difference between two others a rank
 * hears only if it meets them once more. */
static tdm_status make_meeting(tdmi_plan *plan, const tdmi_topology *topology, unsigned reach)
{
    const tdmi_call barrier = tdmi_barrier_call();
    tdmi_way *way = &plan->way;
    tdm_status status = tdmi_select(&barrier, topology, reach & ~TDMI_NEEDS_SLOT, &way->algorithm, way->why);
    if (status != TDM_OK)
        return status;
    way->algorithm->steps(&way->steps, &barrier, topology);
    if (tdmi_call_is_pairwise(&plan->call))
        way->algorithm->steps(&way->steps, &barrier, topology);
    return way->steps.status != TDM_OK ? way->steps.status : note_needs(way, &plan->call, topology->rank, topology->n);
}

static tdm_status make(tdmi_plan *plan, const tdmi_topology *topology, unsigned reach, bool can_share)
{
    const int rank = topology->rank, n = topology->n;
    const tdmi_call *call = &plan->call;
    /* Without buffers there is nothing to reach. All ranks must see that alike, so uneven calls count as having some. */
    const bool no_buffers = call->coll == TDMI_COLL_BARRIER || (!call->uneven && call->count == 0);
    const unsigned shared = can_share ? TDMI_NEEDS_SHARED : 0;
    if (call->on_device)
        return make_meeting(plan, topology, reach | shared);
    if (plan->fused && can_share) {
        fused_steps(&plan->way.steps, call, rank, n);
        tdm_status status = plan->way.steps.status != TDM_OK ? plan->way.steps.status : note_needs(&plan->way, call, rank, n);
        if (status != TDM_OK)
            return status;
        plan->agrees = n > 1 && !no_buffers;
    } else {
        const tdmi_call padded = padded_call(call, n);
        tdm_status status = make_way(plan->fused ? &padded : call, topology, reach | shared, &plan->way);
        if (status != TDM_OK)
            return status;
        plan->agrees = n > 1 && !no_buffers && (plan->way.algorithm->needs & TDMI_NEEDS_SHARED) != 0;
    }
    if (plan->agrees) {
        const tdmi_call padded = padded_call(call, n);
        /* Slots hold places; and a fused call's padded copy is not where they say that IN is: peers could not read it. */
        const unsigned others = reach & ~(TDMI_NEEDS_SLOT | (plan->fused ? TDMI_NEEDS_READ : 0));
        tdm_status status = make_way(plan->fused ? &padded : call, topology, others, &plan->otherwise);
        if (status != TDM_OK && status != TDM_ERR_UNSUPPORTED && status != TDM_ERR_INTERNAL)
            return status;
    }
    return TDM_OK;
}

tdmi_plan *tdmi_plans_find(tdmi_plans *plans, const tdmi_call *call, bool fused, int n)
{
    if (plans->last != NULL && same(plans->last, call, fused, n))
        return plans->last;
    for (tdmi_plan *plan = plans->bucket[bucket_of(call, fused, n)]; plan != NULL; plan = plan->next)
        if (same(plan, call, fused, n))
            return plans->last = plan;
    return NULL;
}

tdm_status tdmi_plans_get(tdmi_plans *plans, const tdmi_call *call, bool fused, const tdmi_topology *topology, unsigned reach,
                          bool can_share, tdmi_plan **out)
{
    const int n = topology->n;
    *out = tdmi_plans_find(plans, call, fused, n);
    if (*out != NULL)
        return TDM_OK;
    if (plans->count >= PLANS_MAX)
        drop_unused(plans);
    tdmi_plan *plan = tdmi_calloc(1, sizeof *plan, "coll plan");
    if (plan == NULL)
        return TDM_ERR_NO_MEMORY;
    plan->fused = fused;
    tdm_status status = own_call(plan, call, n);
    if (status == TDM_OK)
        status = make(plan, topology, reach, can_share);
    if (status == TDM_OK)
        tdmi_signature_write(&plan->call, fused, plan->way.algorithm, topology->rank, -1, plan->signature);
    plan->digest = tdmi_history_digest(plan->signature);
    if (status != TDM_OK) {
        free_plan(plan);
        return status;
    }
    const size_t b = bucket_of(call, fused, n);
    plan->next = plans->bucket[b];
    plans->bucket[b] = plan;
    plans->count++;
    plan->number = ++plans->made;
    *out = plans->last = plan;
    return TDM_OK;
}
