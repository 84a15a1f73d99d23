/* metrics.h - what a run writes for machines: metrics.jsonl, one object a step, and summary.json. docs/cli.md has the fields. */
#ifndef TDMI_TRAIN_METRICS_H
#define TDMI_TRAIN_METRICS_H

#include "core/error.h"

#include <stdio.h>

typedef struct tdmi_step_metrics {
    int64_t step;
    double loss, lr, grad_norm;
    int64_t samples, tokens; /* seen by all ranks since the start of training */
    double step_ms, data_ms, forward_ms, backward_ms, comm_ms, comm_exposed_ms, optimizer_ms, tokens_per_s;
    double scale;    /* of the loss in float16; 0: no such thing */
    int64_t skipped; /* steps so far whose gradient overflowed there */
    double sent_mb, plain_mb; /* that a rank gave to others; that an allreduce of float32 gradients takes. 10^6 bytes */
    double val_loss; /* NAN: none at this step */
} tdmi_step_metrics;

typedef struct tdmi_summary {
    const char *model;
    size_t parameters;
    int ranks;
    int64_t steps;
    double median_step_ms, tokens_per_s, comm_share, exposed_comm_share, peak_rss_mb, sent_mb, plain_mb, train_loss, val_loss, seconds;
} tdmi_summary;

typedef struct tdmi_metrics tdmi_metrics;

/* Opens DIR/metrics.jsonl: new, or (resume) after the last line whose step is at most `after_step`, so that steps that are
 * done again are not there twice. steps: of this run; the median
 * is over the last 1,048,576 of them. also_to: a second stream or NULL. */
tdm_status tdmi_metrics_open(const char *dir, bool resume, int64_t after_step, size_t steps, FILE *also_to, tdmi_metrics **out);
void tdmi_metrics_close(tdmi_metrics *metrics);
/* Writes one line and keeps its times. */
tdm_status tdmi_metrics_add(tdmi_metrics *metrics, const tdmi_step_metrics *m);
/* Fills the medians and shares of the steps added, writes DIR/summary.json under a temporary name and renames it. */
tdm_status tdmi_metrics_summarise(tdmi_metrics *metrics, tdmi_summary *summary);

/* Proportional set size of this process in bytes: pages shared with other ranks count by their share, so that the sum over
 * ranks counts each page once. 0 where the kernel does not say. */
size_t tdmi_own_pss(void);

#endif
