/* figures.h - what HTA 0.5.0 computes of a job, as numbers: filled by a file for each metric, written by json.c and text.c. */
#ifndef TDMI_HTA_FIGURES_H
#define TDMI_HTA_FIGURES_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { TDMI_HTA_COMPUTATION, TDMI_HTA_COMMUNICATION, TDMI_HTA_MEMORY, TDMI_HTA_OTHER, TDMI_HTA_TYPES } tdmi_hta_type;

/* X(number, HTA's name): metrics that HTA can fail at, as a whole. */
#define TDMI_HTA_METRIC_MAP(X)                                                                                         \
    X(TEMPORAL, "temporal_breakdown")                                                                                  \
    X(OVERLAP, "comm_comp_overlap")                                                                                    \
    X(IDLE, "idle_time_breakdown")                                                                                     \
    X(QUEUE, "queue_length_summary")                                                                                   \
    X(FULL, "blocked_on_full_queue")                                                                                   \
    X(BANDWIDTH, "memory_bw_summary")                                                                                  \
    X(LAUNCHES, "cuda_kernel_launch_stats")                                                                            \
    X(STRAGGLERS, "potential_stragglers")                                                                              \
    X(WITH_LAST, "incl_last")

typedef enum {
#define TDMI_HTA_METRIC_ENUM(NAME, text) TDMI_HTA_METRIC_##NAME,
    TDMI_HTA_METRIC_MAP(TDMI_HTA_METRIC_ENUM)
#undef TDMI_HTA_METRIC_ENUM
    TDMI_HTA_METRICS
} tdmi_hta_metric;

typedef struct tdmi_hta_temporal_figures {
    bool any;                     /* there are kernels; HTA raises IndexError otherwise */
    double idle_ns, compute_ns, non_compute_ns, span_ns;
    size_t negative;              /* kernels with a negative duration */
} tdmi_hta_temporal_figures;

/* By what runs together: bits 1 << tdmi_hta_type of the first three types. */
typedef struct tdmi_hta_sweep_times {
    double ns[8];
    bool any[8];
} tdmi_hta_sweep_times;
/* HTA's name of what runs together, 1 ... 7. */
const char *tdmi_hta_running_name(int running);

typedef struct tdmi_hta_describe {
    double count, mean, std, min, quarter, half, three_quarters, max; /* std of one value: NaN */
} tdmi_hta_describe;

typedef enum { TDMI_HTA_HOST_WAIT, TDMI_HTA_KERNEL_WAIT, TDMI_HTA_OTHER_WAIT, TDMI_HTA_IDLE_KINDS } tdmi_hta_idle_kind;

typedef struct tdmi_hta_idle_figures {
    int64_t stream;
    double ns[TDMI_HTA_IDLE_KINDS];
    bool any[TDMI_HTA_IDLE_KINDS];
} tdmi_hta_idle_figures;

/* Durations of one name. */
typedef struct tdmi_hta_table_row {
    const char *name; /* of the trace, or "others" */
    tdmi_hta_type type;
    double sum_ns, max_ns, min_ns, mean_ns, std_ns;
} tdmi_hta_table_row;

typedef struct tdmi_hta_queue_figures {
    int64_t stream;
    tdmi_hta_describe length;
} tdmi_hta_queue_figures;

typedef struct tdmi_hta_bandwidth_figures {
    char name[48]; /* eleven characters of UTF-8, or "Memset", "Memcpy Unknown" */
    tdmi_hta_describe gbps;
} tdmi_hta_bandwidth_figures;

typedef struct tdmi_hta_launch_figures {
    double count, cpu_ns, gpu_ns, delay_ns, delay_max_ns;
    double short_kernels, slow_calls, late_kernels;
} tdmi_hta_launch_figures;

/* Of the search for stragglers: an iteration of a rank, and a kernel named ncclKernel... */
typedef struct tdmi_hta_iteration {
    int64_t number, first_ns, last_ns;
} tdmi_hta_iteration;
typedef struct tdmi_hta_candidate {
    int64_t iteration, start_ns, dur_ns;
    uint64_t row; /* where it stands in HTA's table */
    int64_t stream;
    const char *name;
} tdmi_hta_candidate;

typedef struct tdmi_hta_rank_figures {
    int rank;
    double rows;
    int64_t first_ns;             /* the earliest row before the filter; INT64_MAX: none */
    tdmi_hta_temporal_figures temporal, temporal_with_last, temporal_exact;
    double overlap_pct, overlap_with_last_pct, overlap_exact_pct; /* NaN: no communication */
    tdmi_hta_sweep_times with_memory, without_memory;
    tdmi_hta_idle_figures *idle;
    size_t idle_count;
    tdmi_hta_table_row *kernel;
    size_t kernel_count;
    tdmi_hta_table_row *annotation;
    size_t annotation_count;
    bool queue_unequal;           /* HTA's assertion fails */
    tdmi_hta_queue_figures *queue;
    size_t queue_count;
    bool was_full;
    int64_t full_stream;
    double full_ns, full_ratio;
    tdmi_hta_bandwidth_figures *bandwidth;
    size_t bandwidth_count;
    tdmi_hta_launch_figures launches;
    int64_t *step;                /* numbers of the kept iterations, ascending */
    size_t step_count;
    tdmi_hta_iteration *iteration;
    size_t iteration_count;
    tdmi_hta_candidate *candidate;
    size_t candidate_count;
} tdmi_hta_rank_figures;

typedef struct tdmi_hta_figures {
    tdmi_hta_rank_figures *rank;
    size_t rank_count;
    int64_t *step;
    size_t step_count;
    int64_t first_ns;
    int straggler[2];
    size_t straggler_count;
    char *error[TDMI_HTA_METRICS]; /* why HTA has no value; NULL: it has */
} tdmi_hta_figures;

void tdmi_hta_figures_free(tdmi_hta_figures *figures);
/* HTA's error of a metric: the first one counts. False: no memory. */
bool tdmi_hta_figures_fail(tdmi_hta_figures *figures, tdmi_hta_metric metric, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The ranks that hold the others back, of what all of them brought. */
tdm_status tdmi_hta_stragglers(tdmi_hta_figures *figures);

#endif
