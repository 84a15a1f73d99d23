/* rank.c - one rank's threads, streams, and which call launched what.
 *
 * Launches are found by correlation alone; flow events stand on calls that launch nothing too. A call that launches a CUDA graph is
 * the launch of all its kernels. */
#include "job/job.h"

#include "core/memory.h"
#include "job/order.h"

#include <string.h>

/* The longer first: a parent stands before its children. */
static int longer_first(const tdmi_key *a, const tdmi_key *b, void *arg)
{
    const tdmi_trace *trace = arg;
    const int64_t x = trace->event[a->index].dur_ns, y = trace->event[b->index].dur_ns;
    return x != y ? (x < y) - (x > y) : (a->index > b->index) - (a->index < b->index);
}

/* The events that `wanted` says, by start. */
static tdm_status sorted_events(const tdmi_rank *rank, bool (*wanted)(const tdmi_rank *rank, uint32_t event), uint32_t **out, size_t *count_out)
{
    const tdmi_trace *trace = rank->trace;
    size_t count = 0, at = 0;
    for (uint32_t i = 0; i < trace->event_count; i++)
        count += wanted(rank, i);
    tdmi_key *key = tdmi_malloc((count + 1) * sizeof *key, "job");
    uint32_t *list = tdmi_malloc((count + 1) * sizeof *list, "job");
    tdm_status status = key != NULL && list != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    for (uint32_t i = 0; status == TDM_OK && i < trace->event_count; i++)
        if (wanted(rank, i))
            key[at++] = (tdmi_key){trace->event[i].start_ns, i};
    if (status == TDM_OK)
        status = tdmi_keys_sort(key, count, longer_first, (void *)trace);
    for (size_t i = 0; status == TDM_OK && i < count; i++)
        list[i] = key[i].index;
    tdmi_free(key);
    *out = list;
    *count_out = status == TDM_OK ? count : 0;
    return status;
}

static bool is_gpu(const tdmi_rank *rank, uint32_t event)
{
    return TDMI_ROLE_IS_DEVICE(rank->role[event]) && rank->trace->event[event].lane != TDMI_NONE;
}

static bool is_host(const tdmi_rank *rank, uint32_t event)
{
    const uint8_t role = rank->role[event];
    const uint32_t lane = rank->trace->event[event].lane;
    return role != TDMI_ROLE_NONE && role != TDMI_ROLE_HOST_COMM && !TDMI_ROLE_IS_DEVICE(role) && lane != TDMI_NONE && rank->trains[lane];
}

/* ---- launches ---- */

static size_t slot_of(int64_t correlation, size_t mask)
{
    return (size_t)((uint64_t)correlation * 0x9E3779B97F4A7C15u >> 20) & mask;
}

static tdm_status pair_launches(tdmi_rank *rank)
{
    const tdmi_trace *trace = rank->trace;
    size_t calls = 0, slots = 64;
    for (uint32_t i = 0; i < trace->event_count; i++)
        calls += trace->event[i].kind == TDMI_EVENT_RUNTIME;
    while (slots < 2 * calls)
        slots *= 2;
    uint32_t *table = tdmi_malloc(slots * sizeof *table, "job");
    rank->launch = tdmi_malloc((rank->gpu_count + 1) * sizeof *rank->launch, "job");
    rank->gpu_of = tdmi_malloc((trace->event_count + 1) * sizeof *rank->gpu_of, "job");
    if (table == NULL || rank->launch == NULL || rank->gpu_of == NULL) {
        tdmi_free(table);
        return TDM_ERR_NO_MEMORY;
    }
    memset(table, 0xff, slots * sizeof *table);
    memset(rank->gpu_of, 0xff, trace->event_count * sizeof *rank->gpu_of);
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const tdmi_event *e = &trace->event[i];
        if (e->kind != TDMI_EVENT_RUNTIME || e->correlation <= 0 || rank->role[i] == TDMI_ROLE_NONE)
            continue;
        size_t at = slot_of(e->correlation, slots - 1);
        while (table[at] != TDMI_NONE && trace->event[table[at]].correlation != e->correlation)
            at = (at + 1) & (slots - 1);
        if (table[at] == TDMI_NONE)
            table[at] = i;
    }
    for (uint32_t g = 0; g < rank->gpu_count; g++) {
        const int64_t correlation = trace->event[rank->gpu[g]].correlation;
        rank->launch[g] = TDMI_NONE;
        if (correlation <= 0)
            continue;
        size_t at = slot_of(correlation, slots - 1);
        while (table[at] != TDMI_NONE && trace->event[table[at]].correlation != correlation)
            at = (at + 1) & (slots - 1);
        const uint32_t call = table[at];
        if (call == TDMI_NONE || trace->event[call].start_ns > trace->event[rank->gpu[g]].start_ns)
            continue; /* outside the window, or clocks of host and device apart */
        rank->launch[g] = call;
        if (rank->gpu_of[call] == TDMI_NONE)
            rank->gpu_of[call] = g;
        if (!TDMI_ROLE_IS_SYNC(rank->role[call]))
            rank->role[call] = TDMI_ROLE_LAUNCH;
    }
    tdmi_free(table);
    return TDM_OK;
}

/* ---- threads ---- */

static tdm_status find_threads(tdmi_rank *rank)
{
    const tdmi_trace *trace = rank->trace;
    typedef struct facts {
        int64_t busy_ns;
        size_t launches, steps, ops;
    } facts;
    facts *lane = tdmi_calloc(trace->lane_count + 1, sizeof *lane, "job");
    rank->trains = tdmi_calloc(trace->lane_count + 1, sizeof *rank->trains, "job");
    rank->main_lane = TDMI_NONE;
    if (lane == NULL || rank->trains == NULL) {
        tdmi_free(lane);
        return TDM_ERR_NO_MEMORY;
    }
    size_t launches = 0;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const tdmi_event *e = &trace->event[i];
        if (e->lane == TDMI_NONE || trace->lane[e->lane].device)
            continue;
        const uint8_t role = rank->role[i];
        lane[e->lane].steps += role == TDMI_ROLE_STEP;
        lane[e->lane].launches += role == TDMI_ROLE_LAUNCH;
        lane[e->lane].ops += role == TDMI_ROLE_OP || role == TDMI_ROLE_BACKWARD || role == TDMI_ROLE_ITEM;
        if (role == TDMI_ROLE_OP || role == TDMI_ROLE_BACKWARD)
            lane[e->lane].busy_ns += e->dur_ns;
        launches += role == TDMI_ROLE_LAUNCH;
    }
    for (uint32_t l = 0; l < trace->lane_count; l++) {
        const facts *best = rank->main_lane != TDMI_NONE ? &lane[rank->main_lane] : NULL;
        if (lane[l].steps == 0 && lane[l].launches == 0 && lane[l].ops == 0)
            continue;
        rank->trains[l] = lane[l].steps > 0 || (launches > 0 ? lane[l].launches > 0 : lane[l].ops > 0);
        if (best == NULL || lane[l].steps > best->steps ||
            (lane[l].steps == best->steps && (lane[l].launches > best->launches ||
                                              (lane[l].launches == best->launches && lane[l].busy_ns > best->busy_ns))))
            rank->main_lane = l;
    }
    if (rank->main_lane != TDMI_NONE)
        rank->trains[rank->main_lane] = true;
    tdmi_free(lane);
    return TDM_OK;
}

/* ---- streams ---- */

static tdm_status find_streams(tdmi_rank *rank)
{
    const tdmi_trace *trace = rank->trace;
    uint32_t *of_lane = tdmi_malloc((trace->lane_count + 1) * sizeof *of_lane, "job");
    rank->stream = tdmi_calloc(trace->lane_count + 1, sizeof *rank->stream, "job");
    rank->stream_of = tdmi_malloc((rank->gpu_count + 1) * sizeof *rank->stream_of, "job");
    rank->gpu_by_stream = tdmi_malloc((rank->gpu_count + 1) * sizeof *rank->gpu_by_stream, "job");
    rank->compute_stream = TDMI_NONE;
    if (of_lane == NULL || rank->stream == NULL || rank->stream_of == NULL || rank->gpu_by_stream == NULL) {
        tdmi_free(of_lane);
        return TDM_ERR_NO_MEMORY;
    }
    memset(of_lane, 0xff, (trace->lane_count + 1) * sizeof *of_lane);
    for (size_t g = 0; g < rank->gpu_count; g++) {
        const tdmi_event *e = &trace->event[rank->gpu[g]];
        if (of_lane[e->lane] == TDMI_NONE)
            of_lane[e->lane] = (uint32_t)rank->streams++;
        tdmi_stream *stream = &rank->stream[rank->stream_of[g] = of_lane[e->lane]];
        stream->count++;
        stream->compute_ns += rank->role[rank->gpu[g]] == TDMI_ROLE_COMPUTE ? e->dur_ns : 0;
        stream->comm_ns += rank->role[rank->gpu[g]] == TDMI_ROLE_COMM ? e->dur_ns : 0;
    }
    for (uint32_t s = 0, first = 0; s < rank->streams; s++) {
        rank->stream[s].first = first;
        first += rank->stream[s].count;
        rank->stream[s].count = 0;
        if (rank->compute_stream == TDMI_NONE || rank->stream[s].compute_ns > rank->stream[rank->compute_stream].compute_ns)
            rank->compute_stream = s;
    }
    for (uint32_t g = 0; g < rank->gpu_count; g++) {
        tdmi_stream *stream = &rank->stream[rank->stream_of[g]];
        rank->gpu_by_stream[stream->first + stream->count++] = g;
    }
    tdmi_free(of_lane);
    return TDM_OK;
}

/* A stream keeps the order of launches, so its events are in it too; those without a launch in the trace came before. */
uint32_t tdmi_launched_before(const tdmi_rank *rank, uint32_t stream, int64_t ns)
{
    if (stream == TDMI_NONE)
        return TDMI_NONE;
    const uint32_t *list = rank->gpu_by_stream + rank->stream[stream].first;
    size_t low = 0, high = rank->stream[stream].count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (tdmi_gpu_launched(rank, list[middle]) < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? list[low - 1] : TDMI_NONE;
}

tdm_status tdmi_rank_prepare(tdmi_rank *rank)
{
    tdm_status status = tdmi_roles_give(rank);
    if (status == TDM_OK)
        status = sorted_events(rank, is_gpu, &rank->gpu, &rank->gpu_count);
    if (status == TDM_OK)
        status = pair_launches(rank);
    if (status == TDM_OK)
        status = find_threads(rank);
    if (status == TDM_OK)
        status = find_streams(rank);
    if (status == TDM_OK)
        status = sorted_events(rank, is_host, &rank->host, &rank->host_count);
    rank->on_device = rank->gpu_count > 0;
    return status;
}
