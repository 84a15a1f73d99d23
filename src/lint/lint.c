/* lint.c - tdm_lint: read the launch line, have the script parsed, ask each family of rules, write the report. */
#include "lint/report.h"

#include "core/memory.h"

void tdmi_lint_ask(tdmi_lint *lint)
{
    tdmi_lint_options(lint);
    tdmi_lint_environment(lint);
    tdmi_lint_data(lint);
    tdmi_lint_accumulation(lint);
    tdmi_lint_amp(lint);
    tdmi_lint_wrap(lint);
    tdmi_lint_batchnorm(lint);
    tdmi_lint_collectives(lint);
    tdmi_lint_step(lint);
    tdmi_lint_timing(lint);
}

void tdmi_lint_free(tdmi_lint *lint)
{
    for (size_t i = 0; i < lint->findings; i++)
        tdmi_free(lint->finding[i].text);
    tdmi_free(lint->finding);
    tdmi_script_free(&lint->script);
    tdmi_syntax_free(&lint->syntax);
    tdmi_launch_free(&lint->launch);
}

tdm_status tdm_lint(const char *path, const char *launch, const char *env_file, tdm_lint_report **out)
{
    tdmi_lint lint = {.path = path};
    tdm_lint_report *report = tdmi_calloc(1, sizeof *report, "lint report");
    if (report == NULL)
        return TDM_ERR_NO_MEMORY;
    tdm_status status = tdmi_launch_read(launch, env_file, &lint.launch);
    if (status == TDM_OK)
        status = tdmi_syntax_parse(path, &lint.syntax);
    if (status == TDM_OK)
        status = tdmi_script_read(&lint.syntax, &lint.script);
    if (status == TDM_OK) {
        tdmi_lint_ask(&lint);
        status = tdmi_lint_report(&lint, report);
    }
    tdmi_lint_free(&lint);
    if (status != TDM_OK)
        tdm_lint_free(report);
    else
        *out = report;
    return status;
}

const char *tdm_lint_text(const tdm_lint_report *report)
{
    return report->text;
}

const char *tdm_lint_json(const tdm_lint_report *report)
{
    return report->json;
}

int tdm_lint_errors(const tdm_lint_report *report)
{
    return report->count[TDMI_LINT_ERROR];
}

void tdm_lint_free(tdm_lint_report *report)
{
    if (report == NULL)
        return;
    tdmi_free(report->text);
    tdmi_free(report->json);
    tdmi_free(report);
}
