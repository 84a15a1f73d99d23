/* doctor.c - tdm_doctor: sort what it was pointed to, let each kind add its findings, write the report. */
#include "doctor/flight.h"
#include "doctor/input.h"
#include "doctor/job_report.h"
#include "doctor/nccl.h"
#include "doctor/report.h"

#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

/* What was looked at, and what the ranks said themselves. */
static void introduce(const tdmi_witnesses *all, tdm_doctor_report *report)
{
    const tdmi_recording *first = &all->of[0].recording;
    tdmi_report_wrap(report, 2, "job %s: recordings of %zu of %d ranks%s%s", first->job, all->count, first->size, all->note[0] != '\0' ? "; " : "",
                    all->note);
    const char *said = "";
    for (size_t w = 0; w < all->count; w++)
        if (all->of[w].recording.failed && strcmp(all->of[w].recording.error, said) != 0) {
            said = all->of[w].recording.error;
            tdmi_report_wrap(report, 2, "rank %d said: %s", all->of[w].recording.rank, said);
        }
}

/* Recordings of Tandem's own ranks: gathered, lined up, each finding asked. */
static tdm_status examine_recordings(const struct tdmi_input_list *list, const tdm_doctor_options *options, tdm_doctor_report *report)
{
    (void)options;
    tdmi_witnesses all;
    tdmi_lineup lineup;
    tdm_status status = tdmi_gather((const char *const *)list->path, list->count, &all);
    if (status != TDM_OK)
        return status;
    status = tdmi_line_up(&all, &lineup);
    if (status == TDM_OK) {
        introduce(&all, report);
        tdmi_find_mismatched_calls(&lineup, report);
        tdmi_find_missing_calls(&lineup, report);
        tdmi_find_dead_ranks(&lineup, report);
        tdmi_find_unfinished_calls(&lineup, report);
        if (tdm_doctor_findings(report) == 0)
            tdmi_report_say(report, "nothing is wrong with the calls of these ranks");
        report->ranks = all.of[0].recording.size;
        report->failed |= json_object_set_new(report->extra, "recordings", json_integer((json_int_t)all.count)) != 0;
        tdmi_lineup_free(&lineup);
    }
    tdmi_witnesses_free(&all);
    return status;
}

/* What has a summary, which becomes a member of the report's object. */
static tdm_status examine_as(const char *member, const struct tdmi_input_list *list, tdm_doctor_report *report,
                             tdm_status (*look)(const char *const *paths, int count, tdm_doctor_report *report, json_t **summary_out))
{
    json_t *summary = NULL;
    const tdm_status status = look((const char *const *)list->path, list->count, report, &summary);
    if (status == TDM_OK)
        report->failed |= json_object_set_new(report->extra, member, summary) != 0;
    return status;
}

static tdm_status examine_nccl_logs(const struct tdmi_input_list *list, const tdm_doctor_options *options, tdm_doctor_report *report)
{
    (void)options;
    return examine_as("nccl", list, report, tdmi_nccl_examine);
}

static tdm_status examine_traces(const struct tdmi_input_list *list, const tdm_doctor_options *options, tdm_doctor_report *report)
{
    return tdmi_traces_examine((const char *const *)list->path, list->count, options, report);
}

static tdm_status examine_flight_dumps(const struct tdmi_input_list *list, const tdm_doctor_options *options, tdm_doctor_report *report)
{
    (void)options;
    return examine_as("flight", list, report, tdmi_flight_examine);
}

static tdm_status (*const examine[TDMI_INPUT_KINDS])(const struct tdmi_input_list *list, const tdm_doctor_options *options,
                                                     tdm_doctor_report *report) = {
    [TDMI_INPUT_RECORDING] = examine_recordings,
    [TDMI_INPUT_NCCL_LOG] = examine_nccl_logs,
    [TDMI_INPUT_TRACE] = examine_traces,
    [TDMI_INPUT_FLIGHT] = examine_flight_dumps,
};

static tdm_status write_json(tdm_doctor_report *report)
{
    json_t *root = json_pack("{s:i, s:n, s:[], s:O}", "ranks", report->ranks, "iterations", "breakdown", "findings", report->findings);
    if (root != NULL)
        report->failed |= json_object_update(root, report->extra) != 0;
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(root);
    report->json = text != NULL ? tdmi_strdup(text, "doctor") : NULL;
    free(text);
    return report->json != NULL && !report->failed ? TDM_OK : tdmi_fail(TDM_ERR_NO_MEMORY, "the report needs more memory than there is");
}

static tdm_status begin(tdm_doctor_report **out)
{
    tdm_doctor_report *report = tdmi_calloc(1, sizeof *report, "doctor");
    if (report == NULL)
        return TDM_ERR_NO_MEMORY;
    report->findings = json_array();
    report->extra = json_object();
    *out = report;
    return report->findings != NULL && report->extra != NULL ? TDM_OK : tdmi_fail(TDM_ERR_NO_MEMORY, "no memory for a report");
}

static tdm_status end(tdm_status status, tdm_doctor_report *report, tdm_doctor_report **out)
{
    if (status == TDM_OK)
        status = write_json(report);
    if (status == TDM_OK)
        *out = report;
    else
        tdm_doctor_free(report);
    return status;
}

static tdm_status examine_all(const tdmi_inputs *inputs, const tdm_doctor_options *options, tdm_doctor_report *report)
{
    tdm_status status = TDM_OK;
    if (options->page != NULL && inputs->of[TDMI_INPUT_TRACE].count == 0)
        return tdmi_fail(TDM_ERR_INVALID, "a page is written of traces of PyTorch's profiler, and there are none; do without --report");
    for (int kind = 0; kind < TDMI_INPUT_KINDS && status == TDM_OK; kind++)
        if (inputs->of[kind].count > 0)
            status = examine[kind](&inputs->of[kind], options, report);
    return status;
}

static const tdm_doctor_options no_options;

tdm_status tdm_doctor(const char *const *paths, int count, const tdm_doctor_options *options, tdm_doctor_report **out)
{
    tdmi_inputs inputs = {0};
    tdm_doctor_report *report = NULL;
    tdm_status status = begin(&report);
    if (status == TDM_OK)
        status = tdmi_inputs_sort(paths, count, &inputs);
    if (status == TDM_OK)
        status = examine_all(&inputs, options != NULL ? options : &no_options, report);
    tdmi_inputs_free(&inputs);
    return end(status, report, out);
}

tdm_status tdm_doctor_diff(const char *a, const char *b, const tdm_doctor_options *options, tdm_doctor_report **out)
{
    tdm_doctor_report *report = NULL;
    tdm_status status = begin(&report);
    if (status == TDM_OK && options != NULL && options->page != NULL)
        status = tdmi_fail(TDM_ERR_INVALID, "there is no page of two jobs; do without --report, or without --diff");
    if (status == TDM_OK)
        status = tdmi_traces_compare(a, b, options != NULL ? options : &no_options, report);
    return end(status, report, out);
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
    json_decref(report->extra);
    tdmi_free(report->text);
    tdmi_free(report->json);
    tdmi_free(report);
}
