/* kernels.h - the device's work by name, how far ahead of it the host is, and its memory. */
#ifndef TDMI_JOB_KERNELS_H
#define TDMI_JOB_KERNELS_H

#include "job/job.h"

typedef struct tdmi_kernel_sum {
    const char *name; /* borrowed from a trace */
    uint8_t role;     /* COMPUTE, COMM or COPY */
    int64_t count, ns;
} tdmi_kernel_sum;

typedef struct tdmi_kernels {
    tdmi_kernel_sum *of; /* of all ranks, the longest first */
    size_t count;
} tdmi_kernels;

tdm_status tdmi_kernels_sum(const tdmi_job *job, tdmi_kernels *out);
void tdmi_kernels_free(tdmi_kernels *kernels);

/* How far ahead the host of a rank is. */
typedef struct tdmi_launches {
    int64_t count;         /* launched events whose call is in the trace */
    int64_t delay_ns;      /* from the end of a call to the start of what it launched, the mean; 0 where that came first */
    int64_t gap_ns;        /* a stream's pauses between two of its events in an iteration, the mean */
    double queue_mean;     /* of its stream when a call begins, itself included */
    int64_t queue_most;
} tdmi_launches;

void tdmi_launches_measure(const tdmi_job *job, size_t place, tdmi_launches *out);

#define TDMI_MEMORY_POINTS 64

/* Allocated bytes of a rank's device (without one: the CPU) over the trace: the most in each of equal parts of its time. */
typedef struct tdmi_memory_line {
    int64_t allocated[TDMI_MEMORY_POINTS]; /* -1: no change there */
    int64_t most_allocated, most_reserved; /* -1: not recorded */
    int64_t start_ns, end_ns;
} tdmi_memory_line;

/* False: the trace has no memory events. */
bool tdmi_memory_measure(const tdmi_rank *rank, tdmi_memory_line *out);

#endif
