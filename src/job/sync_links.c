/* sync_links.c - the host that waits for the device: synchronisations, copies to the host, a full queue.
 *
 * A trace rarely says which stream a call waited for. If something that was launched before ended while the call waited, it is the
 * latest of that; else the call found its stream idle, and it would have waited for what was launched last. */
#include "job/build.h"

#include "core/memory.h"
#include "job/median.h"
#include "job/syncs.h"

/* Places in a stream's queue: a launch call waits when so many are taken. */
#define QUEUE_PLACES 1024
/* From the end of the device's work until the host goes on, where a trace shows no example. */
#define RETURN_NS 4000
/* An event's wait is believed if the host went on at most so long after something ended. */
#define RETURN_NS_MAX 50000

/* What had to start before the call found a place; TDMI_NONE: it found one at once. */
static uint32_t gate_of(const tdmi_rank *rank, const tdmi_nodes *nodes, uint32_t call, uint32_t gpu)
{
    const uint32_t index = nodes->index[gpu];
    if (index < QUEUE_PLACES)
        return TDMI_NONE;
    const uint32_t gate = rank->gpu_by_stream[rank->stream[rank->stream_of[gpu]].first + index - QUEUE_PLACES];
    return tdmi_gpu_start(rank, gate) <= tdmi_event_end(rank, call) ? gate : TDMI_NONE;
}

bool tdmi_call_waits(const tdmi_rank *rank, const tdmi_nodes *nodes, uint32_t call)
{
    if (TDMI_ROLE_IS_SYNC(rank->role[call]))
        return true;
    const uint32_t gpu = rank->role[call] == TDMI_ROLE_LAUNCH ? rank->gpu_of[call] : TDMI_NONE;
    if (gpu == TDMI_NONE)
        return false;
    const uint32_t gate = gate_of(rank, nodes, call, gpu);
    return tdmi_waits_for_copy(rank, call) || (gate != TDMI_NONE && tdmi_gpu_start(rank, gate) > tdmi_event_start(rank, call));
}

/* Of all streams what was launched before ns and ends last within (from, until]; TDMI_NONE. */
static uint32_t ended_within(const tdmi_rank *rank, int64_t ns, int64_t from_ns, int64_t until_ns)
{
    uint32_t latest = TDMI_NONE;
    for (uint32_t s = 0; s < rank->streams; s++) {
        const uint32_t last = tdmi_launched_before(rank, s, ns);
        if (last != TDMI_NONE && tdmi_gpu_end(rank, last) > from_ns && tdmi_gpu_end(rank, last) <= until_ns &&
            (latest == TDMI_NONE || tdmi_gpu_end(rank, last) > tdmi_gpu_end(rank, latest)))
            latest = last;
    }
    return latest;
}

/* What was launched last before ns, on any stream. */
static uint32_t launched_last(const tdmi_rank *rank, int64_t ns)
{
    uint32_t latest = TDMI_NONE;
    int64_t latest_ns = INT64_MIN;
    for (uint32_t s = 0; s < rank->streams; s++) {
        const uint32_t last = tdmi_launched_before(rank, s, ns);
        const int64_t call_ns = last != TDMI_NONE ? tdmi_gpu_launched(rank, last) : INT64_MIN;
        if (call_ns > latest_ns) {
            latest = last;
            latest_ns = call_ns;
        }
    }
    return latest;
}

static tdm_status learn_return(const tdmi_rank *rank, int64_t *return_ns)
{
    size_t count = 0;
    int64_t *sample = tdmi_malloc((rank->host_count + 1) * sizeof *sample, "replay");
    if (sample == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < rank->host_count; i++) {
        const uint32_t call = rank->host[i];
        if (rank->role[call] != TDMI_ROLE_SYNC_STREAM && rank->role[call] != TDMI_ROLE_SYNC_DEVICE)
            continue;
        const uint32_t gpu = ended_within(rank, tdmi_event_start(rank, call), tdmi_event_start(rank, call), tdmi_event_end(rank, call));
        if (gpu != TDMI_NONE)
            sample[count++] = tdmi_event_end(rank, call) - tdmi_gpu_end(rank, gpu);
    }
    *return_ns = tdmi_median(sample, count, RETURN_NS);
    tdmi_free(sample);
    return TDM_OK;
}

static tdm_status bind_sync(tdmi_model *model, uint32_t place, tdmi_nodes *nodes, uint32_t call, int64_t return_ns)
{
    const tdmi_rank *rank = &model->job->rank[place];
    const int64_t start_ns = tdmi_event_start(rank, call), end_ns = tdmi_event_end(rank, call);
    tdm_status status = TDM_OK;
    if (rank->role[call] == TDMI_ROLE_SYNC_DEVICE) {
        for (uint32_t s = 0; s < rank->streams && status == TDM_OK; s++) {
            const uint32_t last = tdmi_launched_before(rank, s, start_ns);
            if (last != TDMI_NONE && tdmi_gpu_end(rank, last) <= end_ns)
                status = tdmi_bind(model, place, nodes->end[rank->gpu[last]], nodes->end[call], TDMI_DUE_SYNC, return_ns, call);
        }
        return status;
    }
    const uint32_t seen = ended_within(rank, start_ns, start_ns, end_ns);
    if (seen != TDMI_NONE && (rank->role[call] == TDMI_ROLE_SYNC_STREAM || end_ns - tdmi_gpu_end(rank, seen) <= RETURN_NS_MAX))
        return tdmi_bind(model, place, nodes->end[rank->gpu[seen]], nodes->end[call], TDMI_DUE_SYNC, end_ns - tdmi_gpu_end(rank, seen), call);
    const uint32_t last = rank->role[call] == TDMI_ROLE_SYNC_STREAM ? launched_last(rank, start_ns) : TDMI_NONE;
    if (last != TDMI_NONE && tdmi_gpu_end(rank, last) <= end_ns)
        status = tdmi_bind(model, place, nodes->end[rank->gpu[last]], nodes->end[call], TDMI_DUE_SYNC, return_ns, call);
    return status;
}

static tdm_status bind_call(tdmi_model *model, uint32_t place, tdmi_nodes *nodes, uint32_t call)
{
    const tdmi_rank *rank = &model->job->rank[place];
    const uint32_t gpu = rank->gpu_of[call];
    tdm_status status = TDM_OK;
    if (gpu == TDMI_NONE)
        return TDM_OK;
    if (tdmi_waits_for_copy(rank, call))
        status = tdmi_bind(model, place, nodes->end[rank->gpu[gpu]], nodes->end[call], TDMI_DUE_SYNC,
                           tdmi_event_end(rank, call) - tdmi_gpu_end(rank, gpu), call);
    const uint32_t gate = gate_of(rank, nodes, call, gpu);
    if (status == TDM_OK && gate != TDMI_NONE) {
        const int64_t gate_ns = tdmi_gpu_start(rank, gate);
        status = tdmi_bind(model, place, nodes->begin[rank->gpu[gate]], nodes->end[call], TDMI_DUE_QUEUE,
                           gate_ns > tdmi_event_start(rank, call) ? tdmi_event_end(rank, call) - gate_ns : 0, call);
    }
    return status;
}

tdm_status tdmi_sync_links(tdmi_model *model, uint32_t place, tdmi_nodes *nodes)
{
    const tdmi_rank *rank = &model->job->rank[place];
    int64_t return_ns;
    tdm_status status = learn_return(rank, &return_ns);
    for (size_t i = 0; i < rank->host_count && status == TDM_OK; i++) {
        const uint32_t call = rank->host[i];
        if (nodes->end[call] == TDMI_NONE)
            continue;
        if (TDMI_ROLE_IS_SYNC(rank->role[call]))
            status = bind_sync(model, place, nodes, call, return_ns);
        else if (rank->role[call] == TDMI_ROLE_LAUNCH)
            status = bind_call(model, place, nodes, call);
    }
    return status;
}
