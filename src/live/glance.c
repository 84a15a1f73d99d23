/* glance.c - begin, end and optimizer's steps of a trace. */
#include "live/glance.h"

#include "kineto/trace.h"

#include <string.h>

#define STEP_PREFIX "Optimizer.step#"
#define OPTIMIZERS_MAX 16

typedef struct optimizer {
    uint32_t name;
    int steps;
    int64_t first_ns, last_ns; /* ends */
} optimizer;

static void note_step(optimizer *of, int *count, const tdmi_event *event)
{
    int i = 0;
    while (i < *count && of[i].name != event->name)
        i++;
    if (i == OPTIMIZERS_MAX)
        return;
    if (i == *count)
        of[(*count)++] = (optimizer){.name = event->name, .first_ns = event->start_ns + event->dur_ns};
    of[i].steps++;
    of[i].last_ns = event->start_ns + event->dur_ns;
}

static void look(const tdmi_trace *trace, tdmi_glance *out)
{
    optimizer of[OPTIMIZERS_MAX];
    int count = 0;
    int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
    for (size_t i = 0; i < trace->event_count; i++) {
        const tdmi_event *event = &trace->event[i];
        if (event->kind != TDMI_EVENT_CPU_OP && event->kind != TDMI_EVENT_ANNOTATION)
            continue;
        out->operators += event->kind == TDMI_EVENT_CPU_OP;
        begin_ns = event->start_ns < begin_ns ? event->start_ns : begin_ns;
        end_ns = event->start_ns + event->dur_ns > end_ns ? event->start_ns + event->dur_ns : end_ns;
        if (event->kind == TDMI_EVENT_ANNOTATION && strncmp(tdmi_trace_text(trace, event->name), STEP_PREFIX, strlen(STEP_PREFIX)) == 0)
            note_step(of, &count, event);
    }
    if (begin_ns <= end_ns) {
        out->begin_ns = trace->base_ns + begin_ns;
        out->end_ns = trace->base_ns + end_ns;
    }
    for (int i = 0; i < count; i++)
        if (of[i].steps > out->steps) {
            out->steps = of[i].steps;
            out->step_s = of[i].steps > 1 ? (double)(of[i].last_ns - of[i].first_ns) / 1e9 / (of[i].steps - 1) : 0;
        }
}

tdm_status tdmi_glance_at(const char *path, tdmi_glance *out)
{
    *out = (tdmi_glance){0};
    tdmi_trace *trace;
    const tdm_status status = tdmi_trace_read(path, &(tdmi_trace_options){0}, &trace);
    if (status != TDM_OK)
        return status;
    out->nbytes = (size_t)trace->file_bytes;
    look(trace, out);
    tdmi_trace_free(trace);
    return TDM_OK;
}
