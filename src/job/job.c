/* job.c - makes a job from its traces, and takes it apart again. */
#include "job/job.h"

#include "core/memory.h"

tdm_status tdmi_job_create(const tdmi_job_traces *traces, tdmi_job **out)
{
    tdm_status status = TDM_OK;
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
        rank->shift_ns = traces->rank[r]->base_ns - traces->rank[0]->base_ns; /* processes that started in other quarters of a year */
        status = tdmi_rank_prepare(rank);
        if (status == TDM_OK)
            status = tdmi_steps_find(rank);
        job->on_device |= rank->on_device;
        job->kinds |= rank->kinds;
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
