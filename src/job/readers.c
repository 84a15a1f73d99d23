/* readers.c - marks the events of operators that bring values to the host. */
#include "job/readers.h"

#include "core/memory.h"
#include "job/syncs.h"

#include <string.h>

/* A copying operator has a few operators and calls in it; so many events are looked at. */
#define LOOK_MAX 4096

/* An operator that brings a value to the host: aten::item and its like, or one of copying in which the host waited for a copy. */
static bool is_reader(const tdmi_rank *rank, size_t at)
{
    const uint32_t op = rank->host[at];
    if (rank->role[op] == TDMI_ROLE_ITEM)
        return true;
    if (rank->role[op] != TDMI_ROLE_OP || (strcmp(tdmi_event_name(rank, op), "aten::to") != 0 && strcmp(tdmi_event_name(rank, op), "aten::copy_") != 0))
        return false;
    for (size_t i = at + 1; i < rank->host_count && i < at + LOOK_MAX && tdmi_event_start(rank, rank->host[i]) < tdmi_event_end(rank, op); i++)
        if (tdmi_waits_for_copy(rank, rank->host[i]) && rank->trace->event[rank->host[i]].lane == rank->trace->event[op].lane)
            return true;
    return false;
}

/* Calls within such operators, and the copies they launch. */
static void mark(const tdmi_rank *rank, uint8_t *is_part, int64_t *until_ns)
{
    for (size_t l = 0; l < rank->trace->lane_count; l++)
        until_ns[l] = INT64_MIN;
    for (size_t i = 0; i < rank->host_count; i++) {
        const uint32_t event = rank->host[i], lane = rank->trace->event[event].lane;
        const int64_t end_ns = tdmi_event_end(rank, event);
        if (end_ns > until_ns[lane] && is_reader(rank, i))
            until_ns[lane] = end_ns;
        is_part[event] = end_ns <= until_ns[lane];
        if (is_part[event] && rank->role[event] == TDMI_ROLE_LAUNCH && rank->role[rank->gpu[rank->gpu_of[event]]] == TDMI_ROLE_COPY)
            is_part[rank->gpu[rank->gpu_of[event]]] = 1;
    }
}

void tdmi_readers_free(tdmi_readers *readers)
{
    for (size_t r = 0; readers->is_part != NULL && r < readers->ranks; r++)
        tdmi_free(readers->is_part[r]);
    tdmi_free(readers->is_part);
    *readers = (tdmi_readers){0};
}

static tdm_status mark_rank(const tdmi_rank *rank, uint8_t **out)
{
    int64_t *until_ns = tdmi_malloc((rank->trace->lane_count + 1) * sizeof *until_ns, "job");
    *out = tdmi_calloc(rank->trace->event_count + 1, 1, "job");
    const bool fits = until_ns != NULL && *out != NULL;
    if (fits)
        mark(rank, *out, until_ns);
    tdmi_free(until_ns);
    return fits ? TDM_OK : TDM_ERR_NO_MEMORY;
}

tdm_status tdmi_readers_find(const tdmi_job *job, tdmi_readers *out)
{
    *out = (tdmi_readers){.is_part = tdmi_calloc(job->ranks + 1, sizeof *out->is_part, "job"), .ranks = job->ranks};
    tdm_status status = out->is_part != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    for (size_t r = 0; r < job->ranks && status == TDM_OK; r++)
        status = mark_rank(&job->rank[r], &out->is_part[r]);
    if (status != TDM_OK)
        tdmi_readers_free(out);
    return status;
}
