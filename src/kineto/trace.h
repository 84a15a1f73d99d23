/* trace.h - one rank's PyTorch profiler trace (Kineto's Chrome-trace JSON) in memory, and the traces of a job.
 *
 * A file of any age and layout, plain or gzip, whole or damaged, becomes a table of events in the order of the file, 48 bytes each. What
 * only some kinds of events have stands in a table of details of that kind. Texts are interned: equal texts have equal numbers in one
 * trace (not across traces). Times are whole nanoseconds, parsed as decimals, never through a double.
 * What was wrong with the file is counted by kind and told in whole sentences: a reader of the numbers knows how much was used. */
#ifndef TDMI_KINETO_TRACE_H
#define TDMI_KINETO_TRACE_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TDMI_NONE UINT32_MAX                  /* no text, lane, detail, place */
#define TDMI_NO_CORRELATION ((int64_t)-1)     /* as HTA has it */

/* Names of all ages are mapped to these. GPU kinds are COPY, KERNEL, SET, SYNC, GPU_ANNOTATION and DEVICE. */
typedef enum {
    TDMI_EVENT_CPU_OP,         /* cpu_op, Operator */
    TDMI_EVENT_ANNOTATION,     /* user_annotation; of 2021's Operator: ProfilerStep#, enumerate(DataLoader), Optimizer., ... */
    TDMI_EVENT_PYTHON,         /* python_function */
    TDMI_EVENT_RUNTIME,        /* cuda_runtime (AMD's too), cuda_driver, Runtime, mtia_runtime, xpu_runtime, ... */
    TDMI_EVENT_KERNEL,         /* kernel, Kernel, collective_comm */
    TDMI_EVENT_COPY,           /* gpu_memcpy, Memcpy */
    TDMI_EVENT_SET,            /* gpu_memset, Memset */
    TDMI_EVENT_GPU_ANNOTATION, /* gpu_user_annotation */
    TDMI_EVENT_SYNC,           /* cuda_sync: what the CPU or a stream waited for; cuda_event: what is waited for */
    TDMI_EVENT_OVERHEAD,       /* overhead of the profiler */
    TDMI_EVENT_MEMORY,         /* instant [memory]: one allocation or release; dur_ns 0 */
    TDMI_EVENT_DEVICE,         /* work of another accelerator: mtia_ccp_events, mtia_insight, hpu_op, ... */
    TDMI_EVENT_SPAN,           /* cat "Trace": the profiler's own window; HTA drops it */
    TDMI_EVENT_INSTANT,        /* other instants with a name, "Record Window End"; dur_ns 0 */
    TDMI_EVENT_OTHER,          /* complete events of a category that is not known */
    TDMI_EVENT_KINDS
} tdmi_event_kind;

/* Rows as HTA keeps them: has dur and cat, and cat is not "Trace". */
#define TDMI_EVENT_IS_ROW(kind) ((kind) != TDMI_EVENT_MEMORY && (kind) != TDMI_EVENT_SPAN && (kind) != TDMI_EVENT_INSTANT)

enum { /* flags of an event */
    TDMI_EVENT_NEGATIVE = 1, /* dur was negative and is 0 here */
    TDMI_EVENT_SUSPECT = 2,  /* starts at 0 while the trace does not: the writer lost its time. Counted; leave it out of figures */
    TDMI_EVENT_ON_DEVICE = 4, /* lane is a stream of a device */
    TDMI_EVENT_UNSIGNED_STREAM = 8 /* args.stream is 4294967295: -1, written without a sign (2023). HTA takes it for a stream */
};

typedef struct tdmi_event {
    int64_t start_ns, dur_ns; /* as the file counts: add base_ns for the time of day */
    int64_t correlation;      /* args.correlation; TDMI_NO_CORRELATION */
    uint32_t name;            /* text; TDMI_NONE: it has none */
    uint32_t lane;            /* lane[]; TDMI_NONE: there are too many */
    uint32_t place;           /* position in traceEvents, counted over everything that stands there: HTA's index */
    uint32_t detail;          /* in the table of its kind (see tdmi_trace), or TDMI_NONE */
    int32_t stream;           /* int(args.stream); -1: missing or not to be converted ("0x0"), as HTA has it. A CPU event may have one */
    uint16_t category;        /* category[]; UINT16_MAX: an instant that has none */
    uint8_t kind, flags;
} tdmi_event;

typedef struct tdmi_text {
    const char *text; /* valid UTF-8, ends with '\0', holds no other; control characters are possible */
    uint32_t nbytes;
} tdmi_text;

typedef struct tdmi_category {
    uint32_t text; /* exactly as the file has it: HTA compares with case */
    uint8_t kind;
} tdmi_category;

/* A row of the picture: a thread of a process, or a stream of a device. */
typedef struct tdmi_lane {
    bool device;           /* it is a stream */
    int64_t pid, tid;      /* of a thread; a stream's: device and stream (-1: the device as a whole). -1 where the file has a text
                            * that is no number, or nothing */
    uint32_t pid_text;     /* that text ("Spans"), else TDMI_NONE */
    uint32_t tid_text;
    uint32_t thread_name;  /* "thread 123 (python)", "stream 7 "; TDMI_NONE */
    uint32_t process_name; /* "python"; TDMI_NONE */
    uint32_t label;        /* process_labels: "CPU", "GPU 0"; TDMI_NONE */
    uint32_t events;       /* how many there are on it */
} tdmi_lane;

/* Of an operator or kernel that is a collective (args "Collective name" and what goes with it). -1: not said, for all numbers. */
typedef struct tdmi_collective {
    uint32_t name, dtype;                                /* "allreduce", "BFloat16" */
    uint32_t group_name, group_desc, group_ranks;        /* "0", "default_pg", "[0, 1]" */
    uint32_t in_split, out_split;                        /* "[]" */
    int64_t in_count, out_count;                         /* elements */
    int64_t seq;
    uint64_t comms_id;                                   /* 0: not said */
    int32_t group_size, rank, src, dst;
    int32_t global_start, global_stride;
    int8_t is_async;
} tdmi_collective;

/* Of CPU_OP and ANNOTATION events. */
typedef struct tdmi_op_detail {
    int64_t external_id, sequence;      /* -1 */
    int32_t forward_thread;             /* "Fwd thread id"; -1 */
    uint32_t dims, types;               /* the JSON text of "Input Dims" and "Input type" */
    uint32_t call_stack;                /* old traces' "Call stack" */
    uint32_t collective;                /* collective[] */
} tdmi_op_detail;

/* Of KERNEL (and DEVICE) events. */
typedef struct tdmi_kernel_detail {
    int64_t external_id;                /* -1 */
    int64_t graph_id;                   /* 0: not part of a graph, or not said */
    uint32_t blocks, threads;           /* of the grid, of a block; 0: not said; clamped */
    uint32_t registers, shared_bytes;   /* per thread, per block */
    uint32_t collective;                /* collective[] */
} tdmi_kernel_detail;

/* Of COPY and SET events. */
typedef struct tdmi_copy_detail {
    int64_t external_id, nbytes;        /* -1 */
    double bandwidth_gbps;              /* "memory bandwidth (GB/s)", as a correct reader of JSON has it; NaN: none, or no number */
} tdmi_copy_detail;

/* Of MEMORY events. */
typedef struct tdmi_memory_point {
    int64_t nbytes;                     /* negative: released */
    int64_t allocated, reserved;        /* totals; -1 */
    uint64_t address;                   /* 0: not said */
    int32_t device_type, device_id;     /* c10's: 0 CPU, 1 CUDA; -1 */
} tdmi_memory_point;

/* Of PYTHON events. */
typedef struct tdmi_python_detail {
    int32_t id, parent;                 /* -1 */
} tdmi_python_detail;

/* Of SYNC events. The stream that waits or is waited for is the event's `stream`. */
typedef struct tdmi_sync_detail {
    int64_t record_correlation;         /* of the call that recorded the event waited for; -1 */
    int64_t event_id;                   /* -1 */
    int32_t wait_on_stream;             /* -1 */
} tdmi_sync_detail;

typedef struct tdmi_device {
    int id;
    uint32_t name;
    int64_t memory_bytes;
    int major, minor;                   /* compute capability; 0: not said */
    int multiprocessors, warp_size;     /* 0: not said */
    int max_threads_per_multiprocessor, max_threads_per_block;
} tdmi_device;

typedef struct tdmi_process_group {
    uint32_t name, desc, backend;
    int size;                           /* -1 */
    int32_t *rank;                      /* [rank_count], as listed; a list cut short with "..." gives fewer than size */
    size_t rank_count;
} tdmi_process_group;

typedef enum { TDMI_VENDOR_UNKNOWN, TDMI_VENDOR_NVIDIA, TDMI_VENDOR_AMD, TDMI_VENDOR_MTIA, TDMI_VENDOR_OTHER } tdmi_vendor;

/* What was lost, left out or put right, each counted. X(name, what one is, as in "3 events ..."). */
#define TDMI_WRONG_MAP(X)                                                                                              \
    X(DAMAGED, "places where the text is no JSON; reading went on at the next event")                                  \
    X(NOT_OBJECT, "entries of traceEvents that are no events")                                                         \
    X(NO_DUR, "complete events without a duration, left out")                                                          \
    X(NO_CATEGORY, "complete events without a category, left out")                                                     \
    X(NO_TIME, "events without a time, left out")                                                                      \
    X(TIME_RANGE, "events whose time does not fit into 64 bits of ns, left out")                                       \
    X(NEGATIVE_DUR, "events with a negative duration, taken as 0")                                                     \
    X(AT_ZERO, "events at time 0, before all others, left out of figures")                                             \
    X(BEGIN_END, "begin, end and other events that the profiler does not write, not used")                            \
    X(BAD_NUMBER, "fields whose number could not be read")                                                             \
    X(BAD_TEXT, "texts with broken escapes, control characters or bytes that are not UTF-8, put right")                \
    X(TOO_LARGE, "events or fields too large to be held, left out")                                                    \
    X(TOO_MANY_TEXTS, "names beyond the limit of different names, taken as one")                                       \
    X(TOO_MANY_LANES, "events of threads and streams beyond the limit, on none")                                       \
    X(OUTSIDE, "events outside of the iterations that fit into memory")

typedef enum {
#define TDMI_WRONG_ENUM(NAME, text) TDMI_WRONG_##NAME,
    TDMI_WRONG_MAP(TDMI_WRONG_ENUM)
#undef TDMI_WRONG_ENUM
    TDMI_WRONG_KINDS
} tdmi_wrong;

typedef struct tdmi_trace {
    char *path;
    int rank;                            /* -1: neither the file nor its name says; a job's reader always gives one */
    bool rank_from_name;                 /* or from the order of files */
    int world_size;                      /* -1 */
    uint32_t backend;                    /* "nccl"; TDMI_NONE */
    int64_t base_ns;                     /* baseTimeNanoseconds; 0 */
    bool ns_times;                       /* some event's ts is no whole number, or absent: HTA rounds all of them then */
    int64_t schema;                      /* schemaVersion; 0 */
    bool record_shapes, profile_memory, with_stack, with_flops, with_modules;
    tdmi_vendor vendor;
    int64_t cuda_runtime_version, cuda_driver_version, cupti_version; /* 0: not said */
    uint32_t nccl_version, host_name, trace_name;                     /* texts */

    tdmi_device *device;
    size_t device_count;
    tdmi_process_group *group;
    size_t group_count;

    tdmi_event *event;                   /* by place */
    size_t event_count;
    size_t kind_count[TDMI_EVENT_KINDS];
    tdmi_lane *lane;
    size_t lane_count;
    tdmi_category *category;
    size_t category_count;
    tdmi_text *text;
    size_t text_count;
    struct tdmi_texts *texts;            /* how they are found; the reader's own */

    tdmi_op_detail *op;                  /* CPU_OP, ANNOTATION */
    tdmi_kernel_detail *kernel;          /* KERNEL, DEVICE */
    tdmi_copy_detail *copy;              /* COPY, SET */
    tdmi_memory_point *memory;           /* MEMORY */
    tdmi_python_detail *python;          /* PYTHON */
    tdmi_sync_detail *sync;              /* SYNC */
    tdmi_collective *collective;         /* through op and kernel */
    size_t op_count, kernel_count, copy_count, memory_count, python_count, sync_count, collective_count;

    uint64_t seen;                       /* everything in traceEvents, metadata and flows included */
    uint64_t flows, counters, metadata;  /* not kept as events */
    uint64_t file_bytes, text_bytes;     /* read from disk; after inflating */
    uint64_t wrong[TDMI_WRONG_KINDS];
    bool truncated;                      /* it ends too early, or its end could not be read: what is before was used */
    int iterations_seen, iterations_kept; /* ProfilerSteps on CPU threads; kept < seen: memory allowed no more */
    int64_t kept_from_ns;                /* events that begin before were left out; INT64_MIN: none */
    char **note;                         /* whole sentences about this file, without its name */
    size_t note_count;
} tdmi_trace;

typedef struct tdmi_trace_options {
    size_t memory_bytes;                 /* what all ranks together may take; 0: a quarter of this machine's */
    bool rows_only;                      /* only what HTA looks at: no instants and spans, and details of COPY and SET alone */
    bool newest_of_rank;                 /* of two files that claim one rank the newer is used, with a note; else they are an error */
    int threads;                         /* 0: as many as this process may use */
} tdmi_trace_options;

/* One file. TDM_ERR_BAD_FILE: it cannot be read, or is no trace (the text says what was found and where);
 * TDM_ERR_NO_MEMORY: not one iteration fits into memory_bytes. A trace without events is a trace. */
tdm_status tdmi_trace_read(const char *path, const tdmi_trace_options *options, tdmi_trace **out);
/* The same from bytes; `name` stands for the path. */
tdm_status tdmi_trace_read_bytes(const char *name, const void *bytes, size_t nbytes, const tdmi_trace_options *options, tdmi_trace **out);
void tdmi_trace_free(tdmi_trace *trace); /* NULL is fine */

/* "" where there is none. */
const char *tdmi_trace_text(const tdmi_trace *trace, uint32_t text);
/* The number of a text that some event or field has; TDMI_NONE: none has. */
uint32_t tdmi_trace_find_text(const tdmi_trace *trace, const char *text);
/* "3 events with a negative duration, taken as 0" - what one of the counts means, without the number. */
const char *tdmi_wrong_text(tdmi_wrong which);

/* The traces of a job, by rank; no two of one rank. */
typedef struct tdmi_job_traces {
    tdmi_trace **rank; /* [count], ascending tdmi_trace.rank; ranks may be missing */
    size_t count;
    int world_size;    /* the largest that a trace says, at least the highest rank + 1 */
    char **note;       /* whole sentences, with names of files: other files of a folder, ranks that could not be read, doubles */
    size_t note_count;
    size_t failed;     /* files named by the caller, or traces in a folder, that could not be read */
} tdmi_job_traces;

/* Files and folders. Of a folder (not of the folders in it) every file whose content is a trace. What cannot be read becomes a note, as
 * long as one trace can: TDM_ERR_BAD_FILE otherwise, with the first reason; and where two claim one rank and their names do not tell them
 * apart: which of them belongs to the other ranks' traces nobody can know. */
tdm_status tdmi_job_traces_read(const char *const *path, size_t count, const tdmi_trace_options *options, tdmi_job_traces **out);
void tdmi_job_traces_free(tdmi_job_traces *job); /* NULL is fine */

#endif
