/* report.c - findings collected, sorted and written: blocks of text for people, one object for programs. */
#include "lint/report.h"

#include "core/memory.h"
#include "core/printable.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_CHARACTERS 100

static const char *const severities[] = {"error", "warning", "note"};

static void add(tdmi_lint *lint, tdmi_lint_finding finding, const char *format, va_list args)
{
    char text[1024];
    for (size_t i = 0; i < lint->findings; i++)
        if (lint->finding[i].rule == finding.rule && lint->finding[i].line == finding.line && lint->finding[i].column == finding.column &&
            lint->finding[i].file == finding.file)
            return;
    if (lint->said[finding.rule] == TDMI_LINT_OF_RULE_MAX)
        return;
    tdmi_lint_finding *grown = tdmi_with_room(lint->finding, lint->findings, &lint->capacity, sizeof *grown, "lint findings");
    if (grown == NULL) {
        lint->failed = true;
        return;
    }
    lint->finding = grown;
    vsnprintf(text, sizeof text, format, args);
    finding.text = tdmi_strdup(text, "lint findings");
    lint->failed |= finding.text == NULL;
    if (finding.text != NULL)
        lint->finding[lint->findings++] = finding;
    lint->said[finding.rule] += finding.text != NULL;
}

void tdmi_lint_say(tdmi_lint *lint, tdmi_rule_number rule, const tdmi_node *node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(lint, (tdmi_lint_finding){rule, tdmi_rules[rule].severity, lint->path, node->line, node->column, NULL}, format, args);
    va_end(args);
}

void tdmi_lint_say_as(tdmi_lint *lint, tdmi_rule_number rule, tdmi_lint_severity severity, const tdmi_node *node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(lint, (tdmi_lint_finding){rule, severity, lint->path, node->line, node->column, NULL}, format, args);
    va_end(args);
}

void tdmi_lint_say_of_launch(tdmi_lint *lint, tdmi_rule_number rule, const char *file, int line, int column, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(lint, (tdmi_lint_finding){rule, tdmi_rules[rule].severity, file != NULL ? file : "--launch", file != NULL ? line : 1, column > 0 ? column : 1, NULL},
        format, args);
    va_end(args);
}

static int in_order(const void *a, const void *b)
{
    const tdmi_lint_finding *x = a, *y = b;
    const int file = strcmp(x->file, y->file);
    if (file != 0)
        return file;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return x->column != y->column ? (x->column < y->column ? -1 : 1) : (int)x->rule - (int)y->rule;
}

/* ---- text ---- */

static void put(tdm_lint_report *report, const char *bytes, size_t nbytes)
{
    if (report->text_nbytes + nbytes + 1 > report->text_capacity) {
        const size_t capacity = (report->text_capacity + nbytes) * 2 + 4096;
        char *grown = tdmi_realloc(report->text, capacity, "lint report");
        if (grown == NULL) {
            report->failed = true;
            return;
        }
        report->text = grown;
        report->text_capacity = capacity;
    }
    memcpy(report->text + report->text_nbytes, bytes, nbytes);
    report->text_nbytes += nbytes;
    report->text[report->text_nbytes] = '\0';
}

/* "    head: words", on as many lines as it takes. */
static void put_wrapped(tdm_lint_report *report, const char *head, const char *words)
{
    size_t used = strlen(head);
    put(report, head, used);
    while (*words != '\0') {
        const size_t n = strcspn(words, " ");
        if (used + 1 + n > LINE_CHARACTERS) {
            put(report, "\n             ", 14);
            used = 13;
        } else {
            put(report, " ", 1);
            used++;
        }
        put(report, words, n);
        used += n;
        words += n + (words[n] == ' ');
    }
    put(report, "\n", 1);
}

static void put_finding(tdm_lint_report *report, const tdmi_lint_finding *finding)
{
    const tdmi_rule *rule = &tdmi_rules[finding->rule];
    char head[4352];
    snprintf(head, sizeof head, "%.4096s:%d:%d %s %s:", finding->file, finding->line, finding->column, severities[finding->severity], rule->id);
    put_wrapped(report, head, finding->text);
    put_wrapped(report, "    why:    ", rule->why);
    put_wrapped(report, "    instead:", rule->instead);
}

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

static void put_text(const tdmi_lint *lint, tdm_lint_report *report)
{
    char line[4352];
    const int *n = report->count;
    for (size_t i = 0; i < lint->findings; i++)
        put_finding(report, &lint->finding[i]);
    snprintf(line, sizeof line, "%.4096s: %d error%s, %d warning%s, %d note%s (parsed by Python %s)\n", lint->path, n[TDMI_LINT_ERROR],
             plural(n[TDMI_LINT_ERROR]), n[TDMI_LINT_WARNING], plural(n[TDMI_LINT_WARNING]), n[TDMI_LINT_NOTE], plural(n[TDMI_LINT_NOTE]),
             lint->syntax.python);
    put(report, line, strlen(line));
    if (report->text != NULL)
        tdmi_printable(report->text, true);
}

/* ---- JSON ---- */

/* Paths and launch lines may be no UTF-8, and a long text may be cut within a character. */
static json_t *text_json(const char *text)
{
    char plain[1024];
    json_t *json = json_string(text);
    if (json != NULL)
        return json;
    snprintf(plain, sizeof plain, "%s", text);
    for (char *at = plain; *at != '\0'; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    return json_string(plain);
}

static json_t *finding_json(const tdmi_lint_finding *finding)
{
    const tdmi_rule *rule = &tdmi_rules[finding->rule];
    return json_pack("{s:s, s:s, s:o, s:i, s:i, s:o, s:s, s:s, s:s}", "id", rule->id, "severity", severities[finding->severity], "file",
                     text_json(finding->file), "line", finding->line, "column", finding->column, "text", text_json(finding->text), "why",
                     rule->why, "instead", rule->instead, "source", rule->source);
}

static void put_json(const tdmi_lint *lint, tdm_lint_report *report)
{
    json_t *findings = json_array();
    for (size_t i = 0; i < lint->findings; i++)
        report->failed |= json_array_append_new(findings, finding_json(&lint->finding[i])) != 0;
    json_t *root = json_pack("{s:o, s:s, s:o, s:i, s:i, s:i}", "file", text_json(lint->path), "python", lint->syntax.python, "findings",
                             findings, "errors", report->count[TDMI_LINT_ERROR], "warnings", report->count[TDMI_LINT_WARNING], "notes",
                             report->count[TDMI_LINT_NOTE]);
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    report->json = text != NULL ? tdmi_strdup(text, "lint report") : NULL;
    report->failed |= report->json == NULL;
    free(text);
}

tdm_status tdmi_lint_report(tdmi_lint *lint, tdm_lint_report *report)
{
    if (lint->findings > 0)
        qsort(lint->finding, lint->findings, sizeof *lint->finding, in_order);
    for (size_t i = 0; i < lint->findings; i++)
        report->count[lint->finding[i].severity]++;
    put_text(lint, report);
    put_json(lint, report);
    return report->failed || lint->failed ? tdmi_fail(TDM_ERR_NO_MEMORY, "the report needs more memory than there is") : TDM_OK;
}
