/* finding.h - what a finding about a job's traces is, and how one is made. A finding is a file with one function of the type
 * tdmi_find, listed in findings.c:
 *
 *   1. measure: from job, breakdown and model->spent; return at once if there is no sign of the cause
 *   2. ask what the job would gain: tdmi_model_what_if with a change of links (a finding's own function, or tdmi_scale)
 *   3. under TDMI_GAIN_PCT_MIN it is no finding; else tdmi_findings_add with numbers, a sentence, and advice in PyTorch's options
 *
 * A finding's page is docs/findings/<id>.md. */
#ifndef TDMI_DOCTOR_FINDING_H
#define TDMI_DOCTOR_FINDING_H

#include "doctor/report.h"
#include "job/breakdown.h"
#include "job/graph.h"
#include "job/readers.h"

/* Less to gain is no finding: a replay is right to a point or two, iterations differ by as much, and a change that brings less is lost
 * among them. */
#define TDMI_GAIN_PCT_MIN 8.0

/* What there is to look at. Only the model's time[] changes when it is asked. */
typedef struct tdmi_case {
    const tdmi_job *job;
    const tdmi_breakdown *breakdown;
    tdmi_model *model;
    /* What several findings ask for: tdmi_findings_look makes it, for as long as it asks them. */
    tdmi_readers readers;
    tdmi_gain without_loader; /* links of TDMI_DUE_DATA at 0 */
} tdmi_case;

typedef struct tdmi_finding {
    const char *id;
    int rank;               /* -1: no one rank */
    tdmi_gain gain;
    json_t *evidence;       /* numbers by name; taken by tdmi_findings_add */
    const char *explains;   /* ids of findings that show the same less exactly, with blanks between; NULL. They are left out if this one gains more
                               than explains_share of what they would */
    double explains_share;
    char text[1024];        /* what is so, with numbers; a sentence without a full stop */
    char advice[1024];      /* what to change; sentences without the last full stop */
} tdmi_finding;

typedef struct tdmi_findings {
    tdmi_finding *of;
    size_t count, capacity;
    bool failed; /* out of memory on the way */
} tdmi_findings;

typedef void tdmi_find(tdmi_case *c, tdmi_findings *out);

/* Copies the finding; takes its evidence. */
void tdmi_findings_add(tdmi_findings *findings, const tdmi_finding *finding);
/* Asks every finding there is, and sorts: the largest gain first. One slow rank's slow loader (or host) shows under two names, buckets
 * that are too small as exposed communication; then the finding that explains the other stands for both. */
void tdmi_findings_look(tdmi_case *c, tdmi_findings *out);
void tdmi_findings_free(tdmi_findings *findings);

/* The mean over all ranks of what links of one kind add up to in an iteration, as part of the iteration in %. */
double tdmi_case_spent_pct(const tdmi_case *c, tdmi_due due);
/* Of one part of the breakdown, in %, the mean over the ranks: tdmi_case_part_pct(c, offsetof(tdmi_split, data_ns)). */
double tdmi_case_part_pct(const tdmi_case *c, size_t field);
/* Iterations of all ranks together: a sum over all of them, divided by it, is that of an iteration and rank. */
double tdmi_job_iterations(const tdmi_job *job);
/* Whether half of an iteration and more is computation: only then a job without findings is limited by it. */
bool tdmi_case_computes(const tdmi_case *c);

/* What a change gains once batches are there at once. A host that launches for nothing, or never waits for the device, could load while
 * the device works and so hide a loader; that gain is the loader's. `both`: the change, with links of TDMI_DUE_DATA at 0 too. */
void tdmi_case_gain_beyond_loader(tdmi_case *c, const tdmi_variation *both, tdmi_gain *out);

/* ---- one file each ---- */
tdmi_find tdmi_find_bucket_order, tdmi_find_communication_exposed, tdmi_find_data_loading, tdmi_find_fsdp_prefetch, tdmi_find_implicit_sync, tdmi_find_large_buckets,
    tdmi_find_launch_bound, tdmi_find_no_mixed_precision, tdmi_find_optimizer_not_fused, tdmi_find_recompute, tdmi_find_slow_link, tdmi_find_small_buckets,
    tdmi_find_straggler, tdmi_find_tiny_kernels, tdmi_find_unpinned_copies;

#endif
