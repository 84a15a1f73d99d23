/* device_links.c - what a kernel waits for: its launch call, the kernel before it on the stream, events of other streams.
 *
 * How long a kernel needs after each is learned from those kernels of the trace where only that one can have held it back: the start
 * of a kernel on a stream that had been idle when it was launched shows the way from call to kernel, one launched long before the
 * stream was free shows the pause between two kernels. */
#include "job/build.h"

#include "core/memory.h"
#include "job/median.h"
#include "job/order.h"

/* Where a trace shows no example: what current NVIDIA GPUs take. */
#define LAUNCH_NS 5000
#define GAP_NS 1000
/* "Had been idle", "long before": by more than this. */
#define CLEAR_NS 3000
/* No example: what is longer than this has waited for something that the trace does not show. */
#define EXAMPLE_NS_MAX 50000
/* A start later than everything known asks for by this much has another reason: look for it on other streams. */
#define UNEXPLAINED_NS 5000

typedef struct learned {
    int64_t launch_ns[2], gap_ns, event_ns; /* launch: of a kernel, of a collective */
} learned;

typedef struct samples {
    int64_t *value;
    size_t count;
} samples;

static bool is_comm(const tdmi_rank *rank, uint32_t gpu)
{
    return rank->role[rank->gpu[gpu]] == TDMI_ROLE_COMM;
}

/* What a collective's stream waits for: all that was launched before it where the computing is done; TDMI_NONE: nothing, or it did not. */
static uint32_t computed_before(const tdmi_rank *rank, uint32_t gpu)
{
    if (!is_comm(rank, gpu) || rank->launch[gpu] == TDMI_NONE || rank->stream_of[gpu] == rank->compute_stream)
        return TDMI_NONE;
    const uint32_t before = tdmi_launched_before(rank, rank->compute_stream, tdmi_gpu_launched(rank, gpu));
    return before != TDMI_NONE && tdmi_gpu_end(rank, before) <= tdmi_gpu_start(rank, gpu) ? before : TDMI_NONE;
}

static tdm_status learn(const tdmi_rank *rank, learned *out)
{
    samples launch[2] = {{0}}, gap = {0}, event = {0};
    int64_t *room = tdmi_malloc((4 * rank->gpu_count + 4) * sizeof *room, "replay");
    if (room == NULL)
        return TDM_ERR_NO_MEMORY;
    launch[0].value = room;
    launch[1].value = room + rank->gpu_count;
    gap.value = room + 2 * rank->gpu_count;
    event.value = room + 3 * rank->gpu_count;
    for (size_t s = 0; s < rank->streams; s++)
        for (uint32_t i = 0; i < rank->stream[s].count; i++) {
            const uint32_t *list = rank->gpu_by_stream + rank->stream[s].first, g = list[i];
            const int64_t start_ns = tdmi_gpu_start(rank, g), call_ns = tdmi_gpu_launched(rank, g);
            const int64_t before_ns = i > 0 ? tdmi_gpu_end(rank, list[i - 1]) : INT64_MIN;
            const uint32_t computed = computed_before(rank, g);
            const int64_t ready_ns = computed != TDMI_NONE ? tdmi_gpu_end(rank, computed) : INT64_MIN;
            if (call_ns == INT64_MIN || before_ns > start_ns)
                continue;
            const int64_t latest_ns = before_ns > ready_ns ? before_ns : ready_ns;
            if (start_ns - (latest_ns > call_ns ? latest_ns : call_ns) > EXAMPLE_NS_MAX)
                continue;
            if (before_ns < call_ns - CLEAR_NS && ready_ns < call_ns - CLEAR_NS)
                launch[is_comm(rank, g)].value[launch[is_comm(rank, g)].count++] = start_ns - call_ns;
            else if (computed != TDMI_NONE && call_ns < ready_ns - 2 * LAUNCH_NS && before_ns < ready_ns - CLEAR_NS)
                event.value[event.count++] = start_ns - ready_ns;
            else if (computed == TDMI_NONE && call_ns < before_ns - 2 * LAUNCH_NS)
                gap.value[gap.count++] = start_ns - before_ns;
        }
    out->launch_ns[0] = tdmi_median(launch[0].value, launch[0].count, LAUNCH_NS);
    out->launch_ns[1] = tdmi_median(launch[1].value, launch[1].count, out->launch_ns[0]);
    out->gap_ns = tdmi_median(gap.value, gap.count, GAP_NS);
    out->event_ns = tdmi_median(event.value, event.count, GAP_NS);
    tdmi_free(room);
    return TDM_OK;
}

/* The CPU's collectives, sorted by `time_of`. */
static tdm_status list_comms(const tdmi_rank *rank, int64_t (*time_of)(const tdmi_rank *rank, uint32_t event), uint32_t **out, size_t *count_out)
{
    size_t count = 0, at = 0;
    for (uint32_t i = 0; !rank->on_device && i < rank->trace->event_count; i++)
        count += rank->role[i] == TDMI_ROLE_HOST_COMM;
    tdmi_key *key = tdmi_malloc((count + 1) * sizeof *key, "replay");
    *out = tdmi_malloc((count + 1) * sizeof **out, "replay");
    tdm_status status = key != NULL && *out != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    for (uint32_t i = 0; status == TDM_OK && at < count; i++)
        if (rank->role[i] == TDMI_ROLE_HOST_COMM)
            key[at++] = (tdmi_key){time_of(rank, i), i};
    if (status == TDM_OK)
        status = tdmi_keys_sort(key, count, NULL, NULL);
    for (size_t i = 0; status == TDM_OK && i < count; i++)
        (*out)[i] = key[i].index;
    *count_out = count;
    tdmi_free(key);
    return status;
}

tdm_status tdmi_device_nodes(tdmi_model *model, uint32_t place, tdmi_nodes *nodes)
{
    const tdmi_rank *rank = &model->job->rank[place];
    for (uint32_t s = 0; s < rank->streams; s++)
        for (uint32_t i = 0; i < rank->stream[s].count; i++)
            nodes->index[rank->gpu_by_stream[rank->stream[s].first + i]] = i;
    for (uint32_t i = 0; i < rank->trace->event_count; i++) {
        const bool host_comm = !rank->on_device && rank->role[i] == TDMI_ROLE_HOST_COMM;
        if (!host_comm && (!TDMI_ROLE_IS_DEVICE(rank->role[i]) || rank->trace->event[i].lane == TDMI_NONE))
            continue;
        nodes->begin[i] = tdmi_graph_node(model->graph, tdmi_event_start(rank, i));
        nodes->end[i] = tdmi_graph_node(model->graph, tdmi_event_end(rank, i));
        if (nodes->begin[i] == UINT32_MAX || nodes->end[i] == UINT32_MAX)
            return TDM_ERR_NO_MEMORY;
    }
    const tdm_status status = list_comms(rank, tdmi_event_start, &nodes->comm, &nodes->comms);
    return status == TDM_OK ? list_comms(rank, tdmi_event_end, &nodes->comm_by_end, &nodes->comms) : status;
}

/* Of other streams the event that ended last in (after, until] and was launched before `gpu`; TDMI_NONE. */
static uint32_t ended_elsewhere(const tdmi_rank *rank, uint32_t gpu, int64_t after_ns, int64_t until_ns)
{
    uint32_t latest = TDMI_NONE;
    for (uint32_t s = 0; s < rank->streams; s++) {
        const uint32_t *list = rank->gpu_by_stream + rank->stream[s].first;
        size_t low = 0, high = rank->stream[s].count;
        if (s == rank->stream_of[gpu])
            continue;
        while (low < high) {
            const size_t middle = low + (high - low) / 2;
            if (tdmi_gpu_end(rank, list[middle]) <= until_ns)
                low = middle + 1;
            else
                high = middle;
        }
        const uint32_t last = low > 0 ? list[low - 1] : TDMI_NONE;
        if (last != TDMI_NONE && tdmi_gpu_end(rank, last) > after_ns && tdmi_gpu_launched(rank, last) < tdmi_gpu_launched(rank, gpu) &&
            (latest == TDMI_NONE || tdmi_gpu_end(rank, last) > tdmi_gpu_end(rank, latest)))
            latest = last;
    }
    return latest;
}

typedef struct optimizer_spans {
    uint32_t *event;
    size_t count, at;
} optimizer_spans;

/* The optimizer reads gradients, so its first kernel waits for every collective launched before it. */
static tdm_status wait_for_collectives(tdmi_model *model, uint32_t place, tdmi_nodes *nodes, uint32_t gpu, const learned *l, int64_t *asked_ns)
{
    const tdmi_rank *rank = &model->job->rank[place];
    for (uint32_t s = 0; s < rank->streams; s++) {
        const uint32_t last = s != rank->stream_of[gpu] && rank->stream[s].comm_ns > 0 ? tdmi_launched_before(rank, s, tdmi_gpu_launched(rank, gpu)) : TDMI_NONE;
        if (last == TDMI_NONE || !is_comm(rank, last) || tdmi_gpu_end(rank, last) > tdmi_gpu_start(rank, gpu))
            continue;
        const tdm_status status = tdmi_bind(model, place, nodes->end[rank->gpu[last]], nodes->begin[rank->gpu[gpu]], TDMI_DUE_EVENT, l->gap_ns, rank->gpu[last]);
        if (status != TDM_OK)
            return status;
        *asked_ns = tdmi_gpu_end(rank, last) + l->gap_ns > *asked_ns ? tdmi_gpu_end(rank, last) + l->gap_ns : *asked_ns;
    }
    return TDM_OK;
}

/* Whether a span of the optimizer begins between the launches of the stream's event before and this one. */
static bool starts_optimizer(const tdmi_rank *rank, optimizer_spans *spans, int64_t before_ns, int64_t call_ns)
{
    while (spans->at < spans->count && tdmi_event_start(rank, spans->event[spans->at]) <= before_ns)
        spans->at++;
    return spans->at < spans->count && tdmi_event_start(rank, spans->event[spans->at]) <= call_ns;
}

static tdm_status bind_event(tdmi_model *model, uint32_t place, tdmi_nodes *nodes, uint32_t gpu, uint32_t before, bool optimizer, const learned *l)
{
    const tdmi_rank *rank = &model->job->rank[place];
    const uint32_t event = rank->gpu[gpu], call = rank->launch[gpu], begin = nodes->begin[event];
    const int64_t start_ns = tdmi_gpu_start(rank, gpu);
    int64_t asked_ns = INT64_MIN;
    tdm_status status = TDM_OK;
    if (rank->role[event] == TDMI_ROLE_COMM) /* meeting_links.c says how long; where it has nothing to say, as long as it was */
        status = tdmi_bind(model, place, begin, nodes->end[event], TDMI_DUE_TRANSFER, 0, event);
    else
        status = tdmi_bind(model, place, begin, nodes->end[event], rank->role[event] == TDMI_ROLE_COPY ? TDMI_DUE_COPY : TDMI_DUE_COMPUTE,
                           rank->trace->event[event].dur_ns, event);
    if (status == TDM_OK && call != TDMI_NONE && nodes->begin[call] != TDMI_NONE) {
        const int64_t ns = l->launch_ns[is_comm(rank, gpu)];
        status = tdmi_bind(model, place, nodes->begin[call], begin, TDMI_DUE_LAUNCH, ns, event);
        asked_ns = tdmi_gpu_launched(rank, gpu) + ns;
    }
    if (status == TDM_OK && before != TDMI_NONE) {
        if (tdmi_gpu_end(rank, before) <= start_ns) {
            status = tdmi_bind(model, place, nodes->end[rank->gpu[before]], begin, TDMI_DUE_GAP, l->gap_ns, event);
            asked_ns = tdmi_gpu_end(rank, before) + l->gap_ns > asked_ns ? tdmi_gpu_end(rank, before) + l->gap_ns : asked_ns;
        } else { /* they overlap */
            status = tdmi_bind(model, place, nodes->begin[rank->gpu[before]], begin, TDMI_DUE_ORDER, 0, event);
        }
    }
    const uint32_t computed = computed_before(rank, gpu);
    if (status == TDM_OK && computed != TDMI_NONE) {
        status = tdmi_bind(model, place, nodes->end[rank->gpu[computed]], begin, TDMI_DUE_EVENT, l->event_ns, event);
        asked_ns = tdmi_gpu_end(rank, computed) + l->event_ns > asked_ns ? tdmi_gpu_end(rank, computed) + l->event_ns : asked_ns;
    }
    if (status == TDM_OK && optimizer)
        status = wait_for_collectives(model, place, nodes, gpu, l, &asked_ns);
    if (status == TDM_OK && asked_ns != INT64_MIN && start_ns > asked_ns + UNEXPLAINED_NS) {
        const uint32_t other = ended_elsewhere(rank, gpu, asked_ns, start_ns);
        if (other != TDMI_NONE)
            status = tdmi_bind(model, place, nodes->end[rank->gpu[other]], begin, TDMI_DUE_EVENT, start_ns - tdmi_gpu_end(rank, other), event);
    }
    if (status == TDM_OK && asked_ns == INT64_MIN) { /* nothing is known of it: it stays where it was against the host */
        const uint32_t point = tdmi_point_before(nodes, start_ns);
        if (point != TDMI_NONE)
            status = tdmi_bind(model, place, nodes->point[point].node, begin, TDMI_DUE_OTHER, start_ns - nodes->point[point].ns, event);
    }
    return status;
}

static tdm_status find_optimizers(const tdmi_rank *rank, optimizer_spans *out)
{
    out->event = tdmi_malloc((rank->host_count + 1) * sizeof *out->event, "replay");
    if (out->event == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < rank->host_count; i++)
        if (rank->role[rank->host[i]] == TDMI_ROLE_OPTIMIZER)
            out->event[out->count++] = rank->host[i];
    return TDM_OK;
}

tdm_status tdmi_device_links(tdmi_model *model, uint32_t place, tdmi_nodes *nodes)
{
    const tdmi_rank *rank = &model->job->rank[place];
    learned l;
    optimizer_spans spans = {0};
    tdm_status status = learn(rank, &l);
    if (status == TDM_OK)
        status = find_optimizers(rank, &spans);
    for (uint32_t s = 0; s < rank->streams && status == TDM_OK; s++) {
        int64_t before_ns = INT64_MIN;
        uint32_t before = TDMI_NONE;
        spans.at = 0;
        for (uint32_t i = 0; i < rank->stream[s].count && status == TDM_OK; i++) {
            const uint32_t g = rank->gpu_by_stream[rank->stream[s].first + i];
            const int64_t call_ns = tdmi_gpu_launched(rank, g);
            const bool optimizer = !is_comm(rank, g) && call_ns != INT64_MIN && starts_optimizer(rank, &spans, before_ns, call_ns);
            status = bind_event(model, place, nodes, g, before, optimizer, &l);
            before = g;
            before_ns = call_ns > before_ns ? call_ns : before_ns;
        }
    }
    tdmi_free(spans.event);
    return status;
}
