/* traces.h - traces written by a test, as text, and read back as a job. */
#ifndef TEST_JOB_TRACES_H
#define TEST_JOB_TRACES_H

#include "job/job.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 4

typedef struct scene {
    char text[RANKS_MAX][1 << 16];
    size_t used[RANKS_MAX];
    int ranks;
    int64_t ahead_us[RANKS_MAX]; /* clock of the rank */
    int correlation;
    tdmi_trace *trace[RANKS_MAX];
    tdmi_job_traces traces;
    tdmi_job *job;
} scene;

static scene stage;

static void __attribute__((format(printf, 2, 3))) put(int rank, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    stage.used[rank] += (size_t)vsnprintf(stage.text[rank] + stage.used[rank], sizeof stage.text[rank] - stage.used[rank], format, args);
    va_end(args);
}

static void begin(int ranks)
{
    memset(&stage, 0, sizeof stage);
    stage.ranks = ranks;
    for (int r = 0; r < ranks; r++)
        put(r, "{\"schemaVersion\": 1, \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, \"world_size\": %d}, \"traceEvents\": [", r, ranks);
}

/* Times in us, on the rank's thread (tid 1, or another). */
static void host_on(int rank, int tid, const char *category, const char *name, int start, int end)
{
    put(rank, "{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": 9, \"tid\": %d, \"ts\": %lld, \"dur\": %d, \"args\": {}},", category, name, tid,
        (long long)(start + 1000000 + stage.ahead_us[rank]), end - start);
}

static void host(int rank, const char *category, const char *name, int start, int end)
{
    host_on(rank, 1, category, name, start, end);
}

/* A kernel on a stream, and its launch call on a thread. */
static void kernel_on(int rank, int tid, const char *name, int stream, int call, int start, int end)
{
    stage.correlation++;
    put(rank, "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 9, \"tid\": %d, \"ts\": %lld, \"dur\": 5, \"args\": {\"correlation\": %d}},", tid,
        (long long)(call + 1000000 + stage.ahead_us[rank]), stage.correlation);
    put(rank, "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"%s\", \"pid\": 0, \"tid\": %d, \"ts\": %lld, \"dur\": %d, \"args\": {\"device\": 0, \"stream\": %d, \"correlation\": %d}},", name,
        stream, (long long)(start + 1000000 + stage.ahead_us[rank]), end - start, stream, stage.correlation);
}

static void kernel(int rank, const char *name, int stream, int call, int start, int end)
{
    kernel_on(rank, 1, name, stream, call, start, end);
}

/* The job of what was put. */
static tdmi_job *play(void)
{
    static tdmi_trace *by_rank[RANKS_MAX];
    for (int r = 0; r < stage.ranks; r++) {
        stage.text[r][stage.used[r] - 1] = ']'; /* the last comma */
        put(r, "}");
        if (tdmi_trace_read_bytes("test", stage.text[r], stage.used[r], &(tdmi_trace_options){0}, &stage.trace[r]) != TDM_OK)
            return NULL;
        by_rank[r] = stage.trace[r];
    }
    stage.traces = (tdmi_job_traces){.rank = by_rank, .count = (size_t)stage.ranks, .world_size = stage.ranks};
    return tdmi_job_create(&stage.traces, &stage.job) == TDM_OK ? stage.job : NULL;
}

static void end(void)
{
    tdmi_job_free(stage.job);
    for (int r = 0; r < stage.ranks; r++)
        tdmi_trace_free(stage.trace[r]);
}

#endif
