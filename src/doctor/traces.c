/* traces.c - traces of PyTorch's profiler: read, understood, every finding asked, the report written. */
#include "doctor/job_report.h"

static tdm_status write(const tdmi_case *c, const tdmi_findings *findings, tdm_doctor_report *report)
{
    json_t *members = tdmi_job_json(c, findings), *list = tdmi_findings_json(findings);
    tdmi_job_text(c, findings, report);
    report->ranks = (int)c->job->ranks > report->ranks ? (int)c->job->ranks : report->ranks;
    report->failed |= findings->failed || members == NULL || list == NULL || json_object_update(report->extra, members) != 0 ||
                      json_array_extend(report->findings, list) != 0;
    json_decref(members);
    json_decref(list);
    return report->failed ? tdmi_fail(TDM_ERR_NO_MEMORY, "the report needs more memory than there is") : TDM_OK;
}

static tdm_status examine(const tdmi_job *job, tdm_doctor_report *report)
{
    tdmi_breakdown breakdown = {0};
    tdmi_case c = {.job = job, .breakdown = &breakdown};
    tdmi_findings findings;
    tdm_status status = tdmi_breakdown_make(job, &breakdown);
    if (status == TDM_OK)
        status = tdmi_model_create(job, &c.model);
    if (status == TDM_OK) {
        tdmi_findings_look(&c, &findings);
        status = write(&c, &findings, report);
        tdmi_findings_free(&findings);
    }
    tdmi_model_free(c.model);
    tdmi_breakdown_free(&breakdown);
    return status;
}

tdm_status tdmi_traces_examine(const char *const *paths, int count, tdm_doctor_report *report)
{
    tdmi_job_traces *traces;
    tdmi_job *job;
    tdm_status status = tdmi_job_traces_read(paths, (size_t)count, &(tdmi_trace_options){0}, &traces);
    if (status != TDM_OK)
        return status;
    status = tdmi_job_create(traces, &job);
    if (status == TDM_OK) {
        status = examine(job, report);
        tdmi_job_free(job);
    }
    tdmi_job_traces_free(traces);
    return status;
}
