/* job.c - makes a job from its traces, and takes it apart again. */
#include "job/job.h"

#include "core/cpu.h"
#include "core/memory.h"
#include "kineto/each.h"

#define BASE_NS_MAX ((int64_t)1 << 61)
/* Places are numbers of 16 bits in the graph. */
#define RANKS_MAX 65535

/* A base before 1970 or beyond 2040 is damage. */
static int64_t base_of(const tdmi_trace *trace)
{
    return trace->base_ns >= 0 && trace->base_ns < BASE_NS_MAX ? trace->base_ns : 0;
}

static tdm_status prepare(uint32_t place, void *arg)
{
    tdmi_rank *rank = &((tdmi_job *)arg)->rank[place];
    const tdm_status status = tdmi_rank_prepare(rank);
    return status == TDM_OK ? tdmi_steps_find(rank) : status;
}

tdm_status tdmi_job_create(const tdmi_job_traces *traces, tdmi_job **out)
{
    tdm_status status = TDM_OK;
    if (traces->count > RANKS_MAX)
        return tdmi_fail(TDM_ERR_BAD_FILE, "traces of %zu ranks: at most %d are read; give those of some", traces->count, RANKS_MAX);
    tdmi_job *job = tdmi_calloc(1, sizeof *job, "job");
    if (job == NULL)
        return TDM_ERR_NO_MEMORY;
    job->traces = traces;
    job->rank = tdmi_calloc(traces->count + 1, sizeof *job->rank, "job");
    if (job->rank == NULL)
        status = TDM_ERR_NO_MEMORY;
    for (size_t r = 0; r < traces->count && status == TDM_OK; r++) {
        tdmi_rank *rank = &job->rank[job->ranks++];
        rank->trace = traces->rank[r];
        rank->number = traces->rank[r]->rank;
        rank->shift_ns = base_of(traces->rank[r]) - base_of(traces->rank[0]); /* processes that started in other quarters of a year */
    }
    if (status == TDM_OK)
        status = tdmi_each_place(job->ranks, tdmi_cpu_usable(), prepare, job);
    for (size_t r = 0; r < job->ranks; r++) {
        job->on_device |= job->rank[r].on_device;
        job->kinds |= job->rank[r].kinds;
    }
    if (status == TDM_OK) {
        tdmi_steps_agree(job);
        status = tdmi_collectives_line_up(job);
    }
    if (status != TDM_OK) {
        tdmi_job_free(job);
        return status;
    }
    *out = job;
    return TDM_OK;
}

void tdmi_job_free(tdmi_job *job)
{
    if (job == NULL)
        return;
    for (size_t r = 0; r < job->ranks; r++) {
        tdmi_rank *rank = &job->rank[r];
        tdmi_free(rank->role);
        tdmi_free(rank->host);
        tdmi_free(rank->gpu);
        tdmi_free(rank->launch);
        tdmi_free(rank->gpu_of);
        tdmi_free(rank->stream);
        tdmi_free(rank->gpu_by_stream);
        tdmi_free(rank->stream_of);
        tdmi_free(rank->trains);
        tdmi_free(rank->iteration);
    }
    tdmi_free(job->rank);
    tdmi_free(job->part);
    tdmi_free(job->meeting);
    tdmi_free(job);
}
