/* plan_links.c - what would bind collectives if they were sent in another way. Only replays that ask for it have these links:
 *
 *   PLAN      the buckets that DDP makes by default, each when its gradients are complete
 *   PREFETCH  FSDP's gather of a unit waits for the gather before it and the computation of the unit before the last one, instead of
 *             the computation of the last one
 *
 * Planned buckets need no nodes of their own: they go one after the other, so all have arrived at the latest of (ready(i) + the time of
 * the buckets from i on). The links lead to what was really sent last; which ns they have depends on what a transfer takes, so a replay
 * that asks for them gives it: a link's event is the number of the planned bucket. */
#include "job/build.h"

#include "core/memory.h"

#include <string.h>

/* From the end of a kernel to the start of the collective that waits for it. */
#define EVENT_NS 1000

/* The moment at which `share` of a rank's gradients are complete. */
static uint32_t ready_node(const tdmi_model *model, const tdmi_nodes *nodes, const tdmi_part *part, uint32_t iteration, double share)
{
    const tdmi_rank *rank = &model->job->rank[part->place];
    const tdmi_gradient *g = tdmi_gradient_at(&model->buckets, part->place, iteration, share);
    if (g == NULL)
        return TDMI_NONE;
    if (rank->on_device)
        return g->gpu != TDMI_NONE ? nodes[part->place].end[rank->gpu[g->gpu]] : TDMI_NONE;
    const uint32_t point = tdmi_point_before(&nodes[part->place], g->ns);
    return point != TDMI_NONE ? nodes[part->place].point[point].node : TDMI_NONE;
}

/* One bucket of DDP's plan: the gradients it waits for, on every rank, to the moment at which all ranks are there for what was sent last. */
static tdm_status bind_planned(tdmi_model *model, const tdmi_nodes *nodes, uint32_t number)
{
    const tdmi_planned *planned = &model->buckets.plan[number];
    const uint32_t meeting = model->buckets.of[planned->last].meeting;
    const tdmi_meeting *m = &model->job->meeting[meeting];
    tdm_status status = TDM_OK;
    for (uint32_t p = m->first; p < m->first + m->count && status == TDM_OK; p++) {
        const tdmi_part *part = &model->job->part[p];
        const tdmi_rank *rank = &model->job->rank[part->place];
        const uint32_t iteration = (uint32_t)tdmi_iteration_at(rank, tdmi_part_called(rank, part));
        status = tdmi_bind(model, part->place, ready_node(model, nodes, part, iteration, planned->share), model->joined[meeting], TDMI_DUE_PLAN, EVENT_NS, number);
    }
    return status;
}

/* ---- FSDP ---- */

/* A rank's all-gathers and reduce-scatters in the order of their launches. */
typedef struct sharded {
    uint32_t call, event; /* the launch, the kernel */
    bool gathers;
} sharded;

static tdm_status list_sharded(const tdmi_job *job, uint32_t place, sharded **out, size_t *count_out)
{
    const tdmi_rank *rank = &job->rank[place];
    sharded *list = tdmi_malloc((rank->gpu_count + 1) * sizeof *list, "replay");
    uint8_t *kind = tdmi_calloc(rank->gpu_count + 1, 1, "replay");
    size_t count = 0;
    if (list == NULL || kind == NULL) {
        tdmi_free(list);
        tdmi_free(kind);
        return TDM_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < job->meetings; i++) {
        const tdmi_meeting *m = &job->meeting[i];
        const uint8_t is = strcmp(m->op, "all_gather") == 0 ? 1 : strcmp(m->op, "reduce_scatter") == 0 ? 2 : 0;
        for (uint32_t p = m->first; is != 0 && p < m->first + m->count; p++)
            if (job->part[p].place == place && job->part[p].gpu != TDMI_NONE)
                kind[job->part[p].gpu] = is;
    }
    for (size_t i = 0; i < rank->host_count; i++) {
        const uint32_t call = rank->host[i];
        const uint32_t gpu = rank->role[call] == TDMI_ROLE_LAUNCH ? rank->gpu_of[call] : TDMI_NONE;
        if (gpu != TDMI_NONE && kind[gpu] != 0)
            list[count++] = (sharded){call, rank->gpu[gpu], kind[gpu] == 1};
    }
    tdmi_free(kind);
    *out = list;
    *count_out = count;
    return TDM_OK;
}

static tdm_status bind_gathers(tdmi_model *model, uint32_t place, const tdmi_nodes *nodes)
{
    const tdmi_rank *rank = &model->job->rank[place];
    sharded *list;
    size_t count;
    tdm_status status = list_sharded(model->job, place, &list, &count);
    if (status != TDM_OK)
        return status;
    size_t previous = SIZE_MAX; /* gather */
    for (size_t i = 0; i < count && status == TDM_OK; i++) {
        if (!list[i].gathers)
            continue;
        /* The first of a pass has nothing to go before: it waits for what it did wait for. */
        const bool first = previous == SIZE_MAX || rank->trace->event[list[i].call].lane != rank->trace->event[list[previous].call].lane;
        const sharded *before = &list[first ? i : previous];
        const uint32_t begin = nodes->begin[list[i].event];
        const uint32_t computed = tdmi_launched_before(rank, rank->compute_stream, tdmi_event_start(rank, before->call));
        uint32_t ends[3] = {computed != TDMI_NONE ? nodes->end[rank->gpu[computed]] : TDMI_NONE, first ? TDMI_NONE : nodes->end[before->event], TDMI_NONE};
        for (size_t s = (size_t)(before - list); s-- > 0 && ends[2] == TDMI_NONE;) /* scattered before it, on the same stream */
            if (!list[s].gathers)
                ends[2] = nodes->end[list[s].event];
        status = tdmi_bind(model, place, nodes->begin[before->call], begin, TDMI_DUE_PREFETCH, EVENT_NS, list[i].event);
        for (size_t e = 0; e < 3 && status == TDM_OK; e++)
            status = tdmi_bind(model, place, ends[e], begin, TDMI_DUE_PREFETCH, EVENT_NS, list[i].event);
        previous = i;
    }
    tdmi_free(list);
    return status;
}

tdm_status tdmi_plan_links(tdmi_model *model, const tdmi_nodes *nodes)
{
    tdm_status status = TDM_OK;
    for (uint32_t i = 0; i < model->buckets.planned && status == TDM_OK; i++)
        status = bind_planned(model, nodes, i);
    for (uint32_t r = 0; r < model->job->ranks && status == TDM_OK; r++)
        if (model->job->rank[r].on_device && (model->job->kinds & TDMI_JOB_FSDP) != 0)
            status = bind_gathers(model, r, &nodes[r]);
    return status;
}
