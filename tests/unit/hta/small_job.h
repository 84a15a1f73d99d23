/* small_job.h - traces of a few events, written by a test, and what HTA makes of them. */
#ifndef TANDEM_TESTS_SMALL_JOB_H
#define TANDEM_TESTS_SMALL_JOB_H

#include "hta/hta.h"

#include <stdio.h>

typedef struct small_job {
    FILE *file; /* the trace that is being written */
    char *text;
    size_t nbytes, events;
    tdmi_trace *trace[8];
    tdmi_job_traces traces;
    tdmi_hta_figures figures;
} small_job;

/* Begins the trace of a rank; the one before is finished. */
void begin_rank(small_job *job, int rank);
/* Members of one event: "\"ph\": \"X\", ...". */
void add_event(small_job *job, const char *members, ...) __attribute__((format(printf, 2, 3)));
/* Times are texts in us, so that they can have decimals. correlation -1: none. */
void add_op(small_job *job, const char *name, const char *ts, const char *dur);
void add_step(small_job *job, int number, const char *ts, const char *dur);
void add_call(small_job *job, const char *name, const char *ts, const char *dur, int correlation);
void add_gpu(small_job *job, const char *category, const char *name, const char *ts, const char *dur, int stream, int correlation);
static inline void add_kernel(small_job *job, const char *name, const char *ts, const char *dur, int stream, int correlation)
{
    add_gpu(job, "kernel", name, ts, dur, stream, correlation);
}
/* What HTA computes of it; asserts that there is no error of ours. */
const tdmi_hta_figures *figures_of(small_job *job);
/* The same where there may be one. */
tdm_status compute(small_job *job);
void end_job(small_job *job);

/* Figures are ns, tests speak us. */
#define assert_us(ns, us) assert_true((double)(ns) == 1000.0 * (us))

#endif
