/* page.h - the report as one HTML file that needs nothing else: verdict, findings, where an iteration goes, a picture of one iteration
 * on all ranks, collectives, kernels. It is well-formed XML, so that programs can read it too. */
#ifndef TDMI_DOCTOR_PAGE_H
#define TDMI_DOCTOR_PAGE_H

#include "doctor/diagnosis.h"

#include <stdio.h>

/* Replaces the file as a whole or not at all. Errors  TDM_ERR_BAD_FILE it cannot be written (names the file) | TDM_ERR_NO_MEMORY */
tdm_status tdmi_page_write(const tdmi_diagnosis *d, const char *path);

/* ---- the parts of the page; they write to a memory stream ---- */

/* page_timeline.c - SVG. */
tdm_status tdmi_page_timeline(const tdmi_case *c, FILE *out);
/* page_tables.c */
tdm_status tdmi_page_collectives(const tdmi_case *c, FILE *out);
tdm_status tdmi_page_kernels(const tdmi_case *c, FILE *out);

/* Text from outside goes through here: at most `most` characters' bytes, then "...". */
void tdmi_page_escape(FILE *out, const char *text, size_t most);
/* "12.3 ms", "4.56 s" */
void tdmi_page_time(FILE *out, double ns);

#endif
