/* hta.c - tdm_hta: traces read, HTA's metrics of them computed and written both ways. */
#include "hta/hta.h"

#include "core/cpu.h"
#include "core/memory.h"

#include <tandem/doctor.h>

struct tdm_hta_report {
    char *text, *json;
};

static tdm_status write_report(const tdmi_job_traces *job, const tdmi_hta_figures *figures, tdm_hta_report *report)
{
    const tdm_status status = tdmi_hta_text(job, figures, &report->text);
    return status == TDM_OK ? tdmi_hta_json(job, figures, &report->json) : status;
}

tdm_status tdm_hta(const char *const *paths, int count, size_t memory_bytes, tdm_hta_report **out)
{
    tdmi_job_traces *job;
    tdmi_hta_figures figures;
    tdm_hta_report *report = tdmi_calloc(1, sizeof *report, "hta report");
    if (report == NULL)
        return TDM_ERR_NO_MEMORY;
    enum { EVENTS_PART = 2 }; /* of the memory: rows, queues and pairs take up to 0.6 times what the events do */
    const size_t all = memory_bytes > 0 ? memory_bytes : tdmi_memory_total() / 2;
    tdm_status status = tdmi_job_traces_read(paths, (size_t)count, &(tdmi_trace_options){.memory_bytes = all / EVENTS_PART, .rows_only = true, .newest_of_rank = true}, &job);
    if (status == TDM_OK) {
        status = tdmi_hta_compute(job, tdmi_cpu_usable(), &figures);
        if (status == TDM_OK) {
            status = write_report(job, &figures, report);
            tdmi_hta_figures_free(&figures);
        }
        tdmi_job_traces_free(job);
    }
    if (status != TDM_OK) {
        tdm_hta_free(report);
        return status;
    }
    *out = report;
    return TDM_OK;
}

const char *tdm_hta_text(const tdm_hta_report *report)
{
    return report->text;
}

const char *tdm_hta_json(const tdm_hta_report *report)
{
    return report->json;
}

void tdm_hta_free(tdm_hta_report *report)
{
    if (report == NULL)
        return;
    tdmi_free(report->text);
    tdmi_free(report->json);
    tdmi_free(report);
}
