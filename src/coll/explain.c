/* explain.c - a step list as text for people. */
#include "coll/explain.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct writer {
    char *text;
    size_t capacity, length;
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(w->length < w->capacity ? w->text + w->length : NULL, w->length < w->capacity ? w->capacity - w->length : 0,
                      format, args);
    va_end(args);
    w->length += n > 0 ? (size_t)n : 0;
}

static void put_range(writer *w, tdmi_range range)
{
    static const char *const buffers[] = {"in", "out", "acc", "stage", "slot"};
    if (range.first == TDMI_PART_FOR_ME) {
        put(w, "%s, the %zu elements for this rank,", buffers[range.buffer], range.count);
        return;
    }
    put(w, "%s[%zu..%zu)", buffers[range.buffer], range.first, range.first + range.count);
}

static void put_exchange(writer *w, const tdmi_step *step)
{
    if (step->to >= 0) {
        put(w, "send ");
        put_range(w, step->src);
        put(w, " to rank %d%s", step->to, step->from >= 0 ? ", " : "");
    }
    if (step->from < 0)
        return;
    put(w, "receive ");
    put_range(w, step->dst);
    put(w, " from rank %d", step->from);
    if (step->kind == TDMI_STEP_EXCHANGE_REDUCE)
        put(w, step->received_first ? ": received op own" : ": own op received");
    put(w, step->leaf ? ", as input" : "");
}

static void put_step(writer *w, const tdmi_step *step)
{
    if (step->background)
        put(w, "in the background: ");
    switch (step->kind) {
    case TDMI_STEP_COPY:
    case TDMI_STEP_FINISH:
        put(w, step->kind == TDMI_STEP_COPY ? "copy " : "finish ");
        put_range(w, step->src);
        put(w, " to ");
        put_range(w, step->dst);
        break;
    case TDMI_STEP_REDUCE:
        put(w, step->received_first ? "reduce in front " : "reduce ");
        put_range(w, step->src);
        put(w, " into ");
        put_range(w, step->dst);
        break;
    case TDMI_STEP_EXCHANGE:
    case TDMI_STEP_EXCHANGE_REDUCE: put_exchange(w, step); break;
    case TDMI_STEP_PUBLISH: put(w, "publish"); break;
    case TDMI_STEP_MEET:
        if (step->from < 0)
            put(w, "meet all ranks");
        else
            put(w, "meet rank %d", step->from);
        if (step->behind > 0)
            put(w, ", which may be %u behind", step->behind);
        break;
    case TDMI_STEP_REDUCE_FROM:
        put(w, "reduce ");
        put_range(w, step->src);
        put(w, " of all ranks");
        if (step->own.count > 0) {
            put(w, ", own ");
            put_range(w, step->own);
        }
        break;
    case TDMI_STEP_COPY_TO:
        put(w, "  into ");
        put_range(w, step->dst);
        if (step->to < 0)
            put(w, " of all ranks");
        else
            put(w, " of rank %d", step->to);
        break;
    case TDMI_STEP_COPY_FROM:
        put(w, "copy ");
        put_range(w, step->src);
        put(w, " of rank %d to ", step->from);
        put_range(w, step->dst);
        break;
    case TDMI_STEP_REFILL:
        put(w, "  refill ");
        put_range(w, step->dst);
        put(w, " of rank %d with ", step->to);
        put_range(w, step->src);
        break;
    case TDMI_STEP_AWAIT: put(w, "await the background before step %zu", step->src.first); break;
    case TDMI_STEP_ROTATE: put(w, "rotate stages");
    }
}

size_t tdmi_explain(const tdmi_call *call, const char *algorithm, const char *why, const tdmi_steps *steps, int rank, int n, char *text,
                    size_t capacity)
{
    writer w = {text, capacity, 0};
    size_t meetings = 0;
    put(&w, "%s%s of %zu %s", tdmi_coll_name(call->coll), call->uneven ? "v" : "", call->count, tdm_dtype_name(call->dtype));
    if (tdmi_coll_reduces(call->coll))
        put(&w, ", %s", tdm_op_name(call->op));
    if (call->root >= 0)
        put(&w, ", root %d", call->root);
    put(&w, ", rank %d of %d: %s%s%s\n", rank, n, algorithm, why[0] != '\0' ? "; " : "", why);
    for (size_t i = 0; i < steps->count; i++) {
        put(&w, "%6zu  ", i);
        put_step(&w, &steps->step[i]);
        put(&w, "\n");
        meetings += steps->step[i].kind == TDMI_STEP_MEET ? 1 : 0;
    }
    tdmi_traffic traffic = tdmi_steps_traffic(steps);
    put(&w, "        %zu steps, %zu meetings, %zu messages with %zu elements over links\n", steps->count, meetings,
        traffic.messages, traffic.elements_sent);
    return w.length;
}
