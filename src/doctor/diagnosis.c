/* diagnosis.c - read, make a job of it, break it down, build its graph, ask. */
#include "doctor/diagnosis.h"

#include "core/cpu.h"
#include "core/memory.h"

enum { EVENTS_PART = 3 }; /* of the memory: the job, its graph and the replays of it take up to 1.5 times what its events do */

static tdm_status diagnose(tdmi_diagnosis *d)
{
    tdm_status status = tdmi_job_create(d->traces, &d->job);
    if (status == TDM_OK)
        status = tdmi_breakdown_make(d->job, &d->breakdown);
    if (status == TDM_OK)
        status = tdmi_model_create(d->job, &d->c.model);
    if (status != TDM_OK)
        return status;
    d->c.job = d->job;
    d->c.breakdown = &d->breakdown;
    tdmi_findings_look(&d->c, &d->findings);
    return d->findings.failed ? tdmi_fail(TDM_ERR_NO_MEMORY, "the findings need more memory than there is") : TDM_OK;
}

tdm_status tdmi_diagnose(const char *const *paths, int count, size_t memory_bytes, tdmi_diagnosis **out)
{
    tdmi_diagnosis *d = tdmi_calloc(1, sizeof *d, "doctor");
    if (d == NULL)
        return TDM_ERR_NO_MEMORY;
    const size_t all = memory_bytes > 0 ? memory_bytes : tdmi_memory_total() / 2;
    tdm_status status = tdmi_job_traces_read(paths, (size_t)count, &(tdmi_trace_options){.memory_bytes = all / EVENTS_PART}, &d->traces);
    if (status == TDM_OK)
        status = diagnose(d);
    if (status != TDM_OK) {
        tdmi_diagnosis_free(d);
        return status;
    }
    *out = d;
    return TDM_OK;
}

void tdmi_diagnosis_free(tdmi_diagnosis *d)
{
    if (d == NULL)
        return;
    tdmi_findings_free(&d->findings);
    tdmi_model_free(d->c.model);
    tdmi_breakdown_free(&d->breakdown);
    tdmi_job_free(d->job);
    tdmi_job_traces_free(d->traces);
    tdmi_free(d);
}
