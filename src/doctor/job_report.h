/* job_report.h - what is said about a job's traces: for people within 100 columns, for programs as one object. */
#ifndef TDMI_DOCTOR_JOB_REPORT_H
#define TDMI_DOCTOR_JOB_REPORT_H

#include "doctor/finding.h"

/* traces.c - adds findings, text, and members of the report's object: of one job; of what differs between two. */
tdm_status tdmi_traces_examine(const char *const *paths, int count, const tdm_doctor_options *options, tdm_doctor_report *report);
tdm_status tdmi_traces_compare(const char *a, const char *b, const tdm_doctor_options *options, tdm_doctor_report *report);

/* job_text.c - "traces of 4 of 4 ranks, DDP over nccl, ..."; then the whole: appends lines to the report. */
#define TDMI_JOB_TITLE_BYTES 512
void tdmi_job_title(const tdmi_case *c, char text[TDMI_JOB_TITLE_BYTES]);
void tdmi_job_text(const tdmi_case *c, const tdmi_findings *findings, tdm_doctor_report *report);
/* job_json.c - the members of the report's object that come from traces, and its findings; NULL: no memory. */
json_t *tdmi_job_json(const tdmi_case *c, const tdmi_findings *findings);
json_t *tdmi_findings_json(const tdmi_findings *findings);

/* Both write times so. */
static inline double tdmi_ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static inline double tdmi_pct(int64_t part_ns, int64_t whole_ns)
{
    return whole_ns > 0 ? 100 * (double)part_ns / (double)whole_ns : 0;
}

/* What spreads a job: the name of the bit 1 << i of tdmi_job.kinds. */
enum { TDMI_JOB_KIND_NAMES = 4 };
extern const char *const tdmi_job_kind_names[TDMI_JOB_KIND_NAMES];

/* Numbers of collectives of one kind: operation, group and size. */
typedef struct tdmi_traffic {
    const char *op, *group;
    int group_size;
    int seen;                /* ranks whose trace has it */
    int64_t nbytes;          /* -1: not said */
    int64_t count;           /* meetings */
    int64_t transfer_ns, wait_ns; /* medians over meetings; wait: the mean over the ranks of one */
    double algbw_gbps, busbw_gbps; /* of the median; 0: not known */
    bool lined_up;           /* false: waiting and transfer could not be told apart */
} tdmi_traffic;

/* traffic.c - the kinds, most time first; *out is freed with tdmi_free. */
tdm_status tdmi_traffic_sum(const tdmi_job *job, tdmi_traffic **out, size_t *count_out);

#endif
