/* report.h - the two faces of a linter's report. */
#ifndef TDMI_LINT_REPORT_H
#define TDMI_LINT_REPORT_H

#include "lint/lint.h"

#include <tandem/doctor.h>

#include <jansson.h>

struct tdm_lint_report {
    char *text, *json;
    size_t text_nbytes, text_capacity;
    int count[3]; /* by tdmi_lint_severity */
    bool failed;  /* out of memory on the way */
};

/* Sorts what was found, and writes it. */
tdm_status tdmi_lint_report(tdmi_lint *lint, tdm_lint_report *report);

#endif
