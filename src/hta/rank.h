/* rank.h - one rank's rows as HTA keeps them, for the files of this folder.
 *
 * HTA loads a trace into a table and drops the last iteration (traces of two and more). Which rows it takes for what:
 *   row      an event with a duration and a category; its times are rounded to whole us if any event's ts is no int
 *   device   a row that the filter takes for the GPU's: stream and correlation are there, or it is named "Event Sync" or "Context Sync"
 *   kernel   a row that the metrics take for the GPU's: its stream is not -1, whatever else it is
 *   call     a row that is no device row and has a correlation
 * Times are ns here, too; where HTA rounds they are whole us. */
#ifndef TDMI_HTA_RANK_H
#define TDMI_HTA_RANK_H

#include "hta/figures.h"

#include "kineto/trace.h"

enum { /* what a name is */
    TDMI_HTA_NAME_TYPE = 3,           /* a tdmi_hta_type */
    TDMI_HTA_NAME_ENQUEUES = 4,       /* a call that counts for the queue length */
    TDMI_HTA_NAME_LAUNCHES = 8,       /* a call that counts for the launch statistics */
    TDMI_HTA_NAME_STEP = 16,          /* contains ProfilerStep */
    TDMI_HTA_NAME_STEP_NUMBER = 32,   /* begins with ProfilerStep#N */
    TDMI_HTA_NAME_SYNC = 64,          /* "Event Sync", "Context Sync" */
    TDMI_HTA_NAME_NCCL_KERNEL = 128   /* begins with ncclKernel */
};
unsigned tdmi_hta_name_flags(const char *name);
/* N of "ProfilerStep#N". */
int64_t tdmi_hta_step_number(const char *name);

typedef struct tdmi_hta_kernel {
    int64_t start_ns, dur_ns; /* dur may be -1 us: HTA's rounding */
    uint32_t link;            /* link[]; TDMI_NONE: no correlation */
    int64_t stream;
    uint32_t event, name;
    uint32_t copies;          /* how often the filter leaves it: once for each kept call of its correlation */
    uint8_t type;             /* tdmi_hta_type */
    bool device;
} tdmi_hta_kernel;

typedef struct tdmi_hta_call {
    int64_t start_ns, dur_ns;
    int64_t stream;
    uint32_t link;
    uint8_t flags; /* of its name */
} tdmi_hta_call;

/* What shares a correlation. */
typedef struct tdmi_hta_link {
    int64_t correlation;
    uint32_t cpu, gpu;     /* the last call and the last device row of it, indices of events; TDMI_NONE */
    uint32_t kept;         /* calls that the filter keeps */
    uint32_t kernel, next; /* kernels of it, one after another in tdmi_hta_rank.by_link: from, and behind the last */
} tdmi_hta_link;

typedef struct tdmi_hta_step {
    int64_t start_ns, end_ns, number;
    uint32_t event;
    bool device, numbered;
} tdmi_hta_step;

typedef struct tdmi_hta_rank {
    const tdmi_trace *trace;
    bool rounded;
    uint8_t *name_flags;       /* [text_count] of names in rows */
    tdmi_hta_kernel *kernel;   /* after the filter by start, and in HTA's order of rows where starts are equal */
    size_t kernel_count;
    tdmi_hta_call *call;       /* in order of the file */
    size_t call_count;
    tdmi_hta_link *link;
    size_t link_count;
    uint32_t *link_slot;       /* a hash table of their correlations */
    size_t link_mask;
    uint32_t *by_link;         /* kernels, by link */
    tdmi_hta_step *step;       /* rows with ProfilerStep in their name */
    size_t step_count;
    size_t sync_count;         /* device rows that are no kernels */
    /* what the filter leaves */
    bool filtered;
    int64_t limit_ns;          /* rows of the CPU that begin before it; INT64_MIN: none, INT64_MAX: all */
    double row_count;
    uint64_t plain_kept;       /* rows without a correlation that are no device rows */
    int64_t kept_first_ns, kept_last_ns; /* of the starts */
} tdmi_hta_rank;

/* Reads the rows of a trace; borrows it. `rounded`: as HTA does it; false: exact. */
tdm_status tdmi_hta_rank_read(const tdmi_trace *trace, bool rounded, tdmi_hta_rank *out);
void tdmi_hta_rank_free(tdmi_hta_rank *rank);

typedef enum { TDMI_HTA_KEEP_ALL, TDMI_HTA_DROP_LAST, TDMI_HTA_INCLUDE_LAST } tdmi_hta_filter;
/* What of it is kept: everything, or what HTA keeps of a job of two and more iterations, by its option include_last_profiler_step.
 * Sorts the kernels. job_first_ns: the earliest row of all ranks. TDM_ERR_BAD_FILE: more rows than HTA could hold. */
tdm_status tdmi_hta_rank_filter(tdmi_hta_rank *rank, tdmi_hta_filter filter, int64_t job_first_ns);

/* How often the filter leaves a row. */
uint32_t tdmi_hta_row_copies(const tdmi_hta_rank *rank, const tdmi_event *event);
/* A row's times. Clamped to 2^61 ns, so that sums of two fit. */
void tdmi_hta_row_times(bool rounded, const tdmi_event *event, int64_t *start_ns, int64_t *dur_ns);
int64_t tdmi_hta_row_start(bool rounded, const tdmi_event *event);

static inline unsigned tdmi_hta_flags(const tdmi_hta_rank *rank, const tdmi_event *event)
{
    return event->name != TDMI_NONE ? rank->name_flags[event->name] : TDMI_HTA_COMPUTATION;
}

/* Its stream for HTA, which takes a -1 that was written without a sign for a stream. */
static inline int64_t tdmi_hta_stream(const tdmi_event *event)
{
    return (event->flags & TDMI_EVENT_UNSIGNED_STREAM) != 0 ? (int64_t)UINT32_MAX : event->stream;
}

static inline bool tdmi_hta_row_on_device(const tdmi_hta_rank *rank, const tdmi_event *event)
{
    return (tdmi_hta_stream(event) >= 0 && event->correlation >= 0) || (tdmi_hta_flags(rank, event) & TDMI_HTA_NAME_SYNC) != 0;
}

static inline bool tdmi_hta_call_kept(const tdmi_hta_rank *rank, const tdmi_hta_call *call)
{
    return !rank->filtered || call->start_ns < rank->limit_ns;
}

/* Where a kernel stands in HTA's table: rows of the device come first where the filter has parted them. */
static inline uint64_t tdmi_hta_kernel_row(const tdmi_hta_rank *rank, const tdmi_hta_kernel *kernel)
{
    return kernel->event + ((uint64_t)(rank->filtered && !kernel->device) << 32);
}

/* TDMI_NONE: nothing has this correlation. */
uint32_t tdmi_hta_link_find(const tdmi_hta_rank *rank, int64_t correlation);
/* Index in trace->event of the row with HTA's index_correlation of this kernel; TDMI_NONE: none. */
uint32_t tdmi_hta_kernel_partner(const tdmi_hta_rank *rank, const tdmi_hta_kernel *kernel);

/* ---- sort.c: stable ---- */
typedef struct tdmi_hta_key {
    uint64_t key;
    uint32_t value;
} tdmi_hta_key;
/* `scratch` is as long as `keys`. */
void tdmi_hta_sort(tdmi_hta_key *keys, tdmi_hta_key *scratch, size_t count);
static inline uint64_t tdmi_hta_key_of_time(int64_t ns)
{
    return (uint64_t)ns ^ ((uint64_t)1 << 63);
}

/* Sorts whole numbers and leaves each once; gives how many are left. */
size_t tdmi_hta_unite(int64_t *numbers, size_t count);

/* ---- spans.c ---- */
typedef struct tdmi_hta_spans {
    int64_t *from, *to;
    size_t count;
} tdmi_hta_spans;
/* Unions of kept kernels of one type (TDMI_HTA_TYPES: of all); touching ones join. */
tdm_status tdmi_hta_merge(const tdmi_hta_rank *rank, tdmi_hta_type type, tdmi_hta_spans *out);
void tdmi_hta_spans_free(tdmi_hta_spans *spans);
double tdmi_hta_spans_length(const tdmi_hta_spans *spans);
/* Time for each sum of the bits (1, 2, 4) of what runs. */
tdm_status tdmi_hta_sweep(const tdmi_hta_spans *const *spans, const unsigned *bits, size_t count, tdmi_hta_sweep_times *out);

/* ---- describe.c: pandas' describe(). Sorts `value`. ---- */
tdm_status tdmi_hta_describe_values(double *value, size_t count, tdmi_hta_describe *out);
/* pandas' quantile of sorted values; count > 0. */
double tdmi_hta_quantile(const double *sorted, size_t count, double at);

/* ---- iterations.c: which iteration a time belongs to ---- */
typedef struct tdmi_hta_iterations {
    int64_t *bound;  /* [count + 1] ascending */
    uint32_t *step;  /* [count] of rank->step, from bound[i] until bound[i + 1]; TDMI_NONE */
    size_t count, last;
} tdmi_hta_iterations;
tdm_status tdmi_hta_iterations_find(const tdmi_hta_rank *rank, tdmi_hta_iterations *out);
void tdmi_hta_iterations_free(tdmi_hta_iterations *iterations);
/* Index of a step, the last one of the file that contains this time; TDMI_NONE. */
uint32_t tdmi_hta_iteration_at(tdmi_hta_iterations *iterations, int64_t ns);

/* ---- one metric each; all of them fill their part of the figures, memory there is freed with the figures ---- */
tdm_status tdmi_hta_temporal(const tdmi_hta_rank *rank, tdmi_hta_temporal_figures *out);
tdm_status tdmi_hta_overlap(const tdmi_hta_rank *rank, double *pct_out);
tdm_status tdmi_hta_types(const tdmi_hta_rank *rank, tdmi_hta_sweep_times *with_memory, tdmi_hta_sweep_times *without);
tdm_status tdmi_hta_kernel_table(const tdmi_hta_rank *rank, tdmi_hta_rank_figures *out);
tdm_status tdmi_hta_annotation_table(const tdmi_hta_rank *rank, tdmi_hta_rank_figures *out);
tdm_status tdmi_hta_idle(const tdmi_hta_rank *rank, tdmi_hta_rank_figures *out);
tdm_status tdmi_hta_queue(const tdmi_hta_rank *rank, tdmi_hta_rank_figures *out);
tdm_status tdmi_hta_bandwidth(const tdmi_hta_rank *rank, tdmi_hta_rank_figures *out);
tdm_status tdmi_hta_launches(const tdmi_hta_rank *rank, tdmi_hta_rank_figures *out);
/* What a rank brings to the search for stragglers. */
tdm_status tdmi_hta_straggler_material(const tdmi_hta_rank *rank, tdmi_hta_rank_figures *out);

#endif
