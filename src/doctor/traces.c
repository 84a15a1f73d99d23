/* traces.c - traces of PyTorch's profiler: diagnosed, and the reports on them written. */
#include "doctor/diagnosis.h"
#include "doctor/diff.h"
#include "doctor/job_report.h"
#include "doctor/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tdm_status write(const tdmi_diagnosis *d, tdm_doctor_report *report)
{
    json_t *members = tdmi_job_json(&d->c, &d->findings), *list = tdmi_findings_json(&d->findings);
    tdmi_job_text(&d->c, &d->findings, report);
    report->ranks = (int)d->job->ranks > report->ranks ? (int)d->job->ranks : report->ranks;
    report->failed |= members == NULL || list == NULL || json_object_update(report->extra, members) != 0 ||
                      json_array_extend(report->findings, list) != 0;
    json_decref(members);
    json_decref(list);
    return report->failed ? tdmi_fail(TDM_ERR_NO_MEMORY, "the report needs more memory than there is") : TDM_OK;
}

tdm_status tdmi_traces_examine(const char *const *paths, int count, const tdm_doctor_options *options, tdm_doctor_report *report)
{
    tdmi_diagnosis *d;
    tdm_status status = tdmi_diagnose(paths, count, options->memory_bytes, &d);
    if (status != TDM_OK)
        return status;
    status = write(d, report);
    if (status == TDM_OK && options->page != NULL)
        status = tdmi_page_write(d, options->page);
    tdmi_diagnosis_free(d);
    return status;
}

static tdm_status write_diff(tdmi_diagnosis *const side[2], const char *const names[2], tdm_doctor_report *report)
{
    char *text = NULL;
    size_t nbytes;
    FILE *out = open_memstream(&text, &nbytes);
    tdm_status status = out != NULL ? tdmi_diff_text(side, names, out) : TDM_ERR_NO_MEMORY;
    json_t *members = tdmi_diff_json(side);
    if (out != NULL && fclose(out) != 0)
        status = TDM_ERR_NO_MEMORY;
    char *rest = text;
    for (const char *line; status == TDM_OK && (line = strsep(&rest, "\n")) != NULL;)
        if (*line != '\0' || rest != NULL)
            tdmi_report_say(report, "%s", line);
    free(text);
    report->failed |= members == NULL || json_object_set_new(report->extra, "diff", members) != 0;
    return status == TDM_OK && !report->failed ? TDM_OK : tdmi_fail(TDM_ERR_NO_MEMORY, "the report needs more memory than there is");
}

tdm_status tdmi_traces_compare(const char *a, const char *b, const tdm_doctor_options *options, tdm_doctor_report *report)
{
    const char *const names[2] = {a, b};
    tdmi_diagnosis *side[2] = {NULL, NULL};
    tdm_status status = TDM_OK;
    for (int s = 0; s < 2 && status == TDM_OK; s++)
        status = tdmi_diagnose(&names[s], 1, options->memory_bytes / 2, &side[s]);
    if (status == TDM_OK)
        status = write_diff(side, names, report);
    tdmi_diagnosis_free(side[0]);
    tdmi_diagnosis_free(side[1]);
    return status;
}
