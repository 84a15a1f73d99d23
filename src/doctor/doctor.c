/* doctor.c - tdm_doctor: gather, line up, ask each finding, write the report. */
#include "doctor/report.h"

#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

/* What was looked at, and what the ranks said themselves. */
static void introduce(const tdmi_witnesses *all, tdm_doctor_report *report)
{
    const tdmi_recording *first = &all->of[0].recording;
    tdmi_report_say(report, "job %s: recordings of %zu of %d ranks%s%s", first->job, all->count, first->size, all->note[0] != '\0' ? "; " : "",
                    all->note);
    const char *said = "";
    for (size_t w = 0; w < all->count; w++)
        if (all->of[w].recording.failed && strcmp(all->of[w].recording.error, said) != 0) {
            said = all->of[w].recording.error;
            tdmi_report_say(report, "rank %d said: %s", all->of[w].recording.rank, said);
        }
}

static tdm_status write_json(const tdmi_witnesses *all, tdm_doctor_report *report)
{
    json_t *root = json_pack("{s:i, s:i, s:n, s:[], s:O}", "ranks", all->of[0].recording.size, "recordings", (int)all->count, "iterations",
                             "breakdown", "findings", report->findings);
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    report->json = text != NULL ? tdmi_strdup(text, "doctor") : NULL;
    free(text);
    return report->json != NULL && !report->failed ? TDM_OK : tdmi_fail(TDM_ERR_NO_MEMORY, "the report needs more memory than there is");
}

static tdm_status examine(const tdmi_witnesses *all, tdm_doctor_report *report)
{
    tdmi_lineup lineup;
    tdm_status status = tdmi_line_up(all, &lineup);
    if (status != TDM_OK)
        return status;
    introduce(all, report);
    tdmi_find_mismatched_calls(&lineup, report);
    tdmi_find_missing_calls(&lineup, report);
    tdmi_find_dead_ranks(&lineup, report);
    tdmi_find_unfinished_calls(&lineup, report);
    if (tdm_doctor_findings(report) == 0)
        tdmi_report_say(report, "nothing is wrong with the calls of these ranks");
    tdmi_lineup_free(&lineup);
    return write_json(all, report);
}

tdm_status tdm_doctor(const char *const *paths, int count, tdm_doctor_report **out)
{
    tdmi_witnesses all;
    tdm_doctor_report *report = tdmi_calloc(1, sizeof *report, "doctor");
    if (report == NULL)
        return TDM_ERR_NO_MEMORY;
    tdm_status status = tdmi_gather(paths, count, &all);
    if (status == TDM_OK) {
        report->findings = json_array();
        status = report->findings != NULL ? examine(&all, report) : tdmi_fail(TDM_ERR_NO_MEMORY, "no memory for a report");
        tdmi_witnesses_free(&all);
    }
    if (status != TDM_OK) {
        tdm_doctor_free(report);
        return status;
    }
    *out = report;
    return TDM_OK;
}

const char *tdm_doctor_text(const tdm_doctor_report *report)
{
    return report->text;
}

const char *tdm_doctor_json(const tdm_doctor_report *report)
{
    return report->json;
}

int tdm_doctor_findings(const tdm_doctor_report *report)
{
    return (int)json_array_size(report->findings);
}

void tdm_doctor_free(tdm_doctor_report *report)
{
    if (report == NULL)
        return;
    json_decref(report->findings);
    tdmi_free(report->text);
    tdmi_free(report->json);
    tdmi_free(report);
}
