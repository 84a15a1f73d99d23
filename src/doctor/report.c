/* report.c - the two faces of a report. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "doctor/report.h"

#include "core/memory.h"
#include "core/printable.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 100

void tdmi_report_say(tdm_doctor_report *report, const char *format, ...)
{
    char line[4096];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (length < 0)
        return;
    tdmi_printable(line, true);
    length = (int)strlen(line);
    line[length++] = '\n';
    if (report->text_nbytes + (size_t)length + 1 > report->text_capacity) {
        const size_t capacity = (report->text_capacity + (size_t)length) * 2 + 4096;
        char *more = tdmi_realloc(report->text, capacity, "doctor");
        if (more == NULL) {
            report->failed = true;
            return;
        }
        report->text = more;
        report->text_capacity = capacity;
    }
    memcpy(report->text + report->text_nbytes, line, (size_t)length);
    report->text_nbytes += (size_t)length;
    report->text[report->text_nbytes] = '\0';
}

/* How many bytes of a text go on a line of so many columns: up to the last blank behind a word, or as much as fits of a word that is longer. */
static size_t line_length(const char *text, size_t columns)
{
    size_t at = 0, blank = 0;
    for (bool word = false; text[at] != '\0'; at++) {
        const bool begins = ((unsigned char)text[at] & 0xc0) != 0x80; /* a letter, of which there may be more bytes */
        if (text[at] == ' ' && word)
            blank = at;
        if (begins && columns-- == 0)
            return blank > 0 ? blank : at;
        word |= text[at] != ' ';
    }
    return at;
}

void tdmi_report_wrap(tdm_doctor_report *report, int indent, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    const int nbytes = vasprintf(&text, format, args);
    va_end(args);
    if (nbytes < 0) {
        report->failed = true;
        return;
    }
    tdmi_printable(text, false);
    const char *at = text;
    do {
        const int blanks = at > text ? indent : 0;
        const size_t length = line_length(at, (size_t)(COLUMNS - blanks));
        tdmi_report_say(report, "%*s%.*s", blanks, "", (int)length, at);
        at += length;
        at += strspn(at, " ");
    } while (*at != '\0');
    free(text);
}

void tdmi_report_add(tdm_doctor_report *report, const char *id, tdmi_severity severity, int rank, json_t *evidence, const char *advice,
                     const char *text)
{
    json_t *finding = json_pack("{s:s, s:s, s:o, s:o, s:s, s:s, s:n, s:n, s:n, s:n}", "id", id, "severity",
                                severity == TDMI_ERROR ? "error" : "warning", "rank", rank >= 0 ? json_integer(rank) : json_null(),
                                "evidence", evidence, "text", text, "advice", advice, "gain_pct", "gain_pct_low", "gain_pct_high", "verified");
    report->failed |= finding == NULL || json_array_append_new(report->findings, finding) != 0;
    tdmi_report_wrap(report, 3, "%zu. %s.", json_array_size(report->findings), text);
    tdmi_report_wrap(report, 3, "   %s.", advice);
}

void tdmi_recorded_label_text(const tdmi_recorded_call *call, char text[TDMI_LABEL_TEXT_BYTES])
{
    snprintf(text, TDMI_LABEL_TEXT_BYTES, call->label[0] == '\0' ? "%s" : call->label_is_place ? ", at %s" : ", label '%s'", call->label);
}

void tdmi_ranks_text(const json_t *ranks, char text[TDMI_RANKS_TEXT_BYTES])
{
    const size_t count = json_array_size(ranks);
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0, run; i < count; i += run) {
        const json_int_t first = json_integer_value(json_array_get(ranks, i));
        for (run = 1; i + run < count && json_integer_value(json_array_get(ranks, i + run)) == first + (json_int_t)run;)
            run++;
        run = run < 4 ? 1 : run; /* short runs are read more easily one by one */
        if (used + 64 > TDMI_RANKS_TEXT_BYTES) {
            snprintf(text + used, TDMI_RANKS_TEXT_BYTES - used, " and %zu more", count - i);
            return;
        }
        used += (size_t)snprintf(text + used, TDMI_RANKS_TEXT_BYTES - used, run > 1 ? "%s%lld to %lld" : "%s%lld", used > 0 ? ", " : "", (long long)first,
                                 (long long)(first + (json_int_t)run - 1));
    }
}

void tdmi_last_call_text(const tdmi_recorded_call *call, char *text, size_t nbytes)
{
    char what[128], when[32], label[TDMI_LABEL_TEXT_BYTES];
    tdmi_call_text(call, what, sizeof what);
    tdmi_time_text(call->finished_ns != 0 ? call->finished_ns : call->created_ns, when);
    tdmi_recorded_label_text(call, label);
    snprintf(text, nbytes, "call %llu (%s), %s %s%s", (unsigned long long)call->number, what,
             call->state == TDMI_CALL_FINISHED ? "finished" : call->finished_ns != 0 ? "given up" : "made", when, label);
}

json_t *tdmi_call_json(const tdmi_recorded_call *call)
{
    return json_pack("{s:s, s:I, s:s, s:s, s:s, s:I, s:i, s:s, s:I, s:I}", "group", call->group, "call", (json_int_t)call->number, "op",
                     call->op, "dtype", call->dtype, "reduction", call->reduction, "count", (json_int_t)call->count, "root", call->root,
                     "label", call->label, "created_ns", (json_int_t)call->created_ns, "finished_ns", (json_int_t)call->finished_ns);
}
