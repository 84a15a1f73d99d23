/* fuzz_job.c - any trace as a job of two ranks (the same twice, one of them shifted): breakdown, graph, findings and report come to an end. */
#include "doctor/job_report.h"

#include "core/memory.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void examine(const tdmi_job *job)
{
    tdm_doctor_report report = {0};
    tdmi_breakdown breakdown;
    tdmi_case c = {.job = job, .breakdown = &breakdown};
    tdmi_findings findings;
    if (tdmi_breakdown_make(job, &breakdown) != TDM_OK || tdmi_model_create(job, &c.model) != TDM_OK)
        abort();
    for (size_t r = 0; r < job->ranks; r++) {
        const tdmi_split *s = &breakdown.mean[r];
        if (s->compute_ns < 0 || s->comm_exposed_ns < 0 || s->copy_ns < 0 || s->data_ns < 0 || s->comm_overlap_ns < 0)
            abort();
    }
    tdmi_findings_look(&c, &findings);
    tdmi_job_text(&c, &findings, &report);
    json_decref(tdmi_job_json(&c, &findings));
    json_decref(tdmi_findings_json(&findings));
    tdmi_findings_free(&findings);
    tdmi_model_free(c.model);
    tdmi_breakdown_free(&breakdown);
    tdmi_free(report.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tdmi_trace *trace[2];
    tdmi_job *job;
    const tdmi_trace_options options = {.memory_bytes = (size_t)64 << 20, .threads = 1};
    if (tdmi_trace_read_bytes("fuzz", data, size, &options, &trace[0]) != TDM_OK)
        return 0;
    if (tdmi_trace_read_bytes("fuzz", data, size, &options, &trace[1]) != TDM_OK)
        abort();
    trace[0]->rank = 0;
    trace[1]->rank = 1;
    for (size_t i = 0; i < trace[1]->event_count; i++)
        if (trace[1]->event[i].start_ns < INT64_MAX / 4 && trace[1]->event[i].start_ns > 0)
            trace[1]->event[i].start_ns += 1000 + (int64_t)(i % 7) * 500;
    const tdmi_job_traces traces = {.rank = trace, .count = 2, .world_size = 2};
    if (tdmi_job_create(&traces, &job) != TDM_OK)
        abort();
    examine(job);
    tdmi_job_free(job);
    tdmi_trace_free(trace[0]);
    tdmi_trace_free(trace[1]);
    return 0;
}
