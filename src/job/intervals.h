/* intervals.h - sets of spans of time: what is busy when, and how two of them overlap. All times in ns, ends exclusive. */
#ifndef TDMI_JOB_INTERVALS_H
#define TDMI_JOB_INTERVALS_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tdmi_span {
    int64_t start_ns, end_ns;
} tdmi_span;

/* A list of spans; zero-initialised is empty. "Merged": sorted, apart from each other. The functions below that read want merged lists. */
typedef struct tdmi_spans {
    tdmi_span *of;
    size_t count, capacity;
} tdmi_spans;

/* Spans without length are left out. */
tdm_status tdmi_spans_add(tdmi_spans *spans, int64_t start_ns, int64_t end_ns);
void tdmi_spans_merge(tdmi_spans *spans);
void tdmi_spans_free(tdmi_spans *spans);

int64_t tdmi_spans_total(const tdmi_spans *spans);
/* How long both are busy. */
int64_t tdmi_spans_common(const tdmi_spans *a, const tdmi_spans *b);
/* The part of [start_ns, end_ns) that is busy. */
int64_t tdmi_spans_within(const tdmi_spans *spans, int64_t start_ns, int64_t end_ns);
/* out = a without b, out = what is in both, out = what lies of a in [start_ns, end_ns); merged. out is another list than a and b and is
 * emptied before. */
tdm_status tdmi_spans_subtract(const tdmi_spans *a, const tdmi_spans *b, tdmi_spans *out);
tdm_status tdmi_spans_intersect(const tdmi_spans *a, const tdmi_spans *b, tdmi_spans *out);
tdm_status tdmi_spans_clip(const tdmi_spans *a, int64_t start_ns, int64_t end_ns, tdmi_spans *out);
/* The number of the first span that ends after `ns`; count: none. */
size_t tdmi_spans_after(const tdmi_spans *spans, int64_t ns);

#endif
