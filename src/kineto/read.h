/* read.h - how a job's reader reads one of its files. */
#ifndef TDMI_KINETO_READ_H
#define TDMI_KINETO_READ_H

#include "kineto/trace.h"

typedef struct tdmi_read_task {
    const char *path;       /* or only a name, with bytes */
    const void *bytes;
    size_t nbytes;
    size_t memory_bytes;    /* for this file */
    bool rows_only;         /* as in tdmi_trace_options */
    bool ahead;             /* a thread may inflate */
} tdmi_read_task;

/* *foreign: it failed because the file is something else than a trace. */
tdm_status tdmi_trace_read_task(const tdmi_read_task *task, bool *foreign, tdmi_trace **out);
/* The options' memory and threads, or what is sensible here. */
size_t tdmi_trace_memory(const tdmi_trace_options *options);
int tdmi_trace_threads(const tdmi_trace_options *options);

#endif
