/* report.h - findings as they are collected: a text for people and an object for programs each. */
#ifndef TDMI_DOCTOR_REPORT_H
#define TDMI_DOCTOR_REPORT_H

#include "doctor/lineup.h"

#include <tandem/doctor.h>

#include <jansson.h>

typedef enum { TDMI_ERROR, TDMI_WARNING } tdmi_severity;

struct tdm_doctor_report {
    json_t *findings; /* array */
    json_t *extra;    /* members of the report's object that only some kinds of input have */
    int ranks;        /* of the job, 0 unknown */
    char *text, *json;
    size_t text_nbytes, text_capacity;
    bool failed; /* out of memory on the way */
};

/* A finding: `rank` in the world, -1 none; takes evidence. text and advice: whole sentences without a full stop. */
void tdmi_report_add(tdm_doctor_report *report, const char *id, tdmi_severity severity, int rank, json_t *evidence, const char *advice,
                     const char *text);
/* A line of the text, as it is: a row of a table. */
void tdmi_report_say(tdm_doctor_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same within 100 columns, broken between words; lines after the first begin with `indent` blanks. */
void tdmi_report_wrap(tdm_doctor_report *report, int indent, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- one file each ---- */
void tdmi_find_mismatched_calls(const tdmi_lineup *lineup, tdm_doctor_report *report);
void tdmi_find_missing_calls(const tdmi_lineup *lineup, tdm_doctor_report *report);
void tdmi_find_unfinished_calls(const tdmi_lineup *lineup, tdm_doctor_report *report);
void tdmi_find_dead_ranks(const tdmi_lineup *lineup, tdm_doctor_report *report);

#define TDMI_LABEL_TEXT_BYTES (TDMI_LABEL_BYTES + 16)
/* ", label 'step 12'", or "". */
void tdmi_recorded_label_text(const tdmi_recorded_call *call, char text[TDMI_LABEL_TEXT_BYTES]);
#define TDMI_RANKS_TEXT_BYTES 256
/* "0 to 76, 78, 79" of an array of ranks in their order; what does not fit is " and N more". */
void tdmi_ranks_text(const json_t *ranks, char text[TDMI_RANKS_TEXT_BYTES]);
/* For them: what a rank did last, as "its last call of this group was 16 (barrier), finished 12:03:01.200, label 'step 12'". */
void tdmi_last_call_text(const tdmi_recorded_call *call, char *text, size_t nbytes);
json_t *tdmi_call_json(const tdmi_recorded_call *call);

#endif
