/* hta.h - the numbers of HTA 0.5.0 (facebookresearch's HolisticTraceAnalysis) of the same traces, its rounding, its dropped last
 * iteration and its faults included: to compare with, not to trust (docs/hta.md). Our own numbers are src/job's. */
#ifndef TDMI_HTA_HTA_H
#define TDMI_HTA_HTA_H

#include "hta/figures.h"

#include "kineto/trace.h"

/* All metrics of a job, ranks in parallel on up to `threads` threads. Names in the figures are the traces'. */
tdm_status tdmi_hta_compute(const tdmi_job_traces *job, int threads, tdmi_hta_figures *out);

/* One object, as docs/cli.md has it; and tables for people, 100 columns wide. Freed with tdmi_free. */
tdm_status tdmi_hta_json(const tdmi_job_traces *job, const tdmi_hta_figures *figures, char **out);
tdm_status tdmi_hta_text(const tdmi_job_traces *job, const tdmi_hta_figures *figures, char **out);

#endif
