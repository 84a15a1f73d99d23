/* meeting_links.c - collectives: on each rank they start when that rank is ready, and end everywhere once the last has come and the
 * transfer is over. What could not be lined up keeps its whole time as transfer, waiting included. */
#include "job/build.h"

#include "core/memory.h"

/* From the call to the start where nothing is before it. */
#define START_NS 20000

uint32_t tdmi_comm_ended(const tdmi_rank *rank, const tdmi_nodes *nodes, int64_t ns)
{
    size_t low = 0, high = nodes->comms;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (tdmi_event_end(rank, nodes->comm_by_end[middle]) <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? nodes->comm_by_end[low - 1] : TDMI_NONE;
}

/* The CPU's collective starts behind the call that asked for it, the n-th behind the n-th, else behind whatever was last; and, as a
 * process group does one after the other on one thread or several, behind the one that ended before. */
static tdm_status start_host_comms(tdmi_model *model, uint32_t place, const tdmi_nodes *nodes)
{
    const tdmi_rank *rank = &model->job->rank[place];
    tdm_status status = TDM_OK;
    size_t at = 0;
    int64_t until_ns = INT64_MIN;
    for (size_t i = 0; i < nodes->comms && status == TDM_OK; i++) {
        const uint32_t event = nodes->comm[i];
        const int64_t start_ns = tdmi_event_start(rank, event);
        const tdmi_point *call = NULL;
        for (; at < nodes->points && nodes->point[at].ns <= start_ns && call == NULL; at++) {
            const tdmi_point *p = &nodes->point[at];
            if (p->kind != TDMI_POINT_CALL_BEGIN || p->ns < until_ns)
                continue; /* or within another call */
            call = p;
            until_ns = tdmi_event_end(rank, p->event);
        }
        const uint32_t last = tdmi_point_before(nodes, start_ns);
        status = tdmi_bind(model, place, nodes->begin[event], nodes->end[event], TDMI_DUE_TRANSFER, 0, event);
        if (call == NULL && last != TDMI_NONE)
            call = &nodes->point[last];
        const uint32_t before = tdmi_comm_ended(rank, nodes, start_ns - 1);
        const bool queued = before != TDMI_NONE && call != NULL && tdmi_event_end(rank, before) > call->ns;
        const int64_t ns = call != NULL ? start_ns - call->ns : 0;
        if (status == TDM_OK && call != NULL)
            status = tdmi_bind(model, place, call->node, nodes->begin[event], TDMI_DUE_LAUNCH, queued && ns > START_NS ? START_NS : ns, event);
        if (status == TDM_OK && before != TDMI_NONE)
            status = tdmi_bind(model, place, nodes->end[before], nodes->begin[event], TDMI_DUE_ORDER, 0, event);
    }
    return status;
}

static tdm_status bind_part(tdmi_model *model, const tdmi_nodes *nodes, const tdmi_meeting *m, const tdmi_part *part, uint32_t joined)
{
    const uint32_t begin = nodes[part->place].begin[part->event], end = nodes[part->place].end[part->event];
    if (!m->lined_up)
        return tdmi_bind(model, part->place, begin, end, TDMI_DUE_TRANSFER, part->end_ns - part->start_ns, part->event);
    tdm_status status = tdmi_bind(model, part->place, begin, joined, TDMI_DUE_ORDER, 0, part->event);
    if (status == TDM_OK)
        status = tdmi_bind(model, part->place, joined, end, TDMI_DUE_TRANSFER, part->end_ns - m->joined_ns, part->event);
    return status;
}

tdm_status tdmi_meeting_links(tdmi_model *model, const tdmi_nodes *nodes)
{
    const tdmi_job *job = model->job;
    tdm_status status = TDM_OK;
    model->joined = tdmi_malloc((job->meetings + 1) * sizeof *model->joined, "replay");
    if (model->joined == NULL)
        return TDM_ERR_NO_MEMORY;
    for (uint32_t place = 0; place < job->ranks && status == TDM_OK; place++)
        status = start_host_comms(model, place, &nodes[place]);
    for (size_t i = 0; i < job->meetings && status == TDM_OK; i++) {
        const tdmi_meeting *m = &job->meeting[i];
        const uint32_t joined = m->lined_up ? tdmi_graph_node(model->graph, m->joined_ns) : TDMI_NONE;
        if (m->lined_up && joined == UINT32_MAX)
            return TDM_ERR_NO_MEMORY;
        model->joined[i] = joined;
        for (uint32_t p = 0; p < m->count && status == TDM_OK; p++)
            status = bind_part(model, nodes, m, &job->part[m->first + p], joined);
    }
    return status;
}
