/* small_job.c - see small_job.h. */
#include "small_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void finish_rank(small_job *job)
{
    if (job->file == NULL)
        return;
    fputs("]}", job->file);
    fclose(job->file);
    job->file = NULL;
    assert_int_equal(tdmi_trace_read_bytes("small", job->text, job->nbytes, &(tdmi_trace_options){.threads = 1}, &job->trace[job->traces.count]), TDM_OK);
    job->traces.count++;
    free(job->text);
}

void begin_rank(small_job *job, int rank)
{
    finish_rank(job);
    job->file = open_memstream(&job->text, &job->nbytes);
    assert_non_null(job->file);
    fprintf(job->file, "{\"distributedInfo\": {\"rank\": %d, \"world_size\": 8}, \"traceEvents\": [", rank);
    job->events = 0;
}

void add_event(small_job *job, const char *members, ...)
{
    va_list args;
    va_start(args, members);
    fputs(job->events++ > 0 ? ",\n{" : "\n{", job->file);
    vfprintf(job->file, members, args);
    fputs("}", job->file);
    va_end(args);
}

void add_op(small_job *job, const char *name, const char *ts, const char *dur)
{
    add_event(job, "\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"%s\", \"pid\": 1, \"tid\": 1, \"ts\": %s, \"dur\": %s, \"args\": {}", name, ts, dur);
}

void add_step(small_job *job, int number, const char *ts, const char *dur)
{
    add_event(job, "\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#%d\", \"pid\": 1, \"tid\": 1, \"ts\": %s, \"dur\": %s, \"args\": {}",
              number, ts, dur);
}

void add_call(small_job *job, const char *name, const char *ts, const char *dur, int correlation)
{
    add_event(job,
              "\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"%s\", \"pid\": 1, \"tid\": 1, \"ts\": %s, \"dur\": %s, "
              "\"args\": {\"correlation\": %d}",
              name, ts, dur, correlation);
}

void add_gpu(small_job *job, const char *category, const char *name, const char *ts, const char *dur, int stream, int correlation)
{
    char link[48] = "";
    if (correlation >= 0)
        snprintf(link, sizeof link, ", \"correlation\": %d", correlation);
    add_event(job,
              "\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": 0, \"tid\": %d, \"ts\": %s, \"dur\": %s, "
              "\"args\": {\"stream\": %d%s}",
              category, name, stream, ts, dur, stream, link);
}

tdm_status compute(small_job *job)
{
    finish_rank(job);
    job->traces.rank = job->trace;
    job->traces.world_size = 8;
    return tdmi_hta_compute(&job->traces, 2, &job->figures);
}

const tdmi_hta_figures *figures_of(small_job *job)
{
    assert_int_equal(compute(job), TDM_OK);
    return &job->figures;
}

void end_job(small_job *job)
{
    tdmi_hta_figures_free(&job->figures);
    for (size_t r = 0; r < job->traces.count; r++)
        tdmi_trace_free(job->trace[r]);
    *job = (small_job){0};
}
