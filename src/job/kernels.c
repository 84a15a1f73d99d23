/* kernels.c - sums over the device's events. */
#include "job/kernels.h"

#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    const tdmi_kernel_sum *x = a, *y = b;
    return x->role != y->role ? (int)x->role - (int)y->role : strcmp(x->name, y->name);
}

static int longest_first(const void *a, const void *b)
{
    const tdmi_kernel_sum *x = a, *y = b;
    return x->ns != y->ns ? (x->ns < y->ns) - (x->ns > y->ns) : by_name(a, b);
}

/* Per text of one rank. */
static size_t sum_rank(const tdmi_rank *rank, tdmi_kernel_sum *by_text, tdmi_kernel_sum *out)
{
    size_t count = 0;
    memset(by_text, 0, (rank->trace->text_count + 1) * sizeof *by_text);
    for (size_t g = 0; g < rank->gpu_count; g++) {
        const tdmi_event *e = &rank->trace->event[rank->gpu[g]];
        by_text[e->name].role = rank->role[rank->gpu[g]];
        by_text[e->name].count++;
        by_text[e->name].ns += e->dur_ns;
    }
    for (size_t t = 0; t < rank->trace->text_count; t++)
        if (by_text[t].count > 0) {
            out[count] = by_text[t];
            out[count++].name = tdmi_trace_text(rank->trace, (uint32_t)t);
        }
    return count;
}

tdm_status tdmi_kernels_sum(const tdmi_job *job, tdmi_kernels *out)
{
    size_t texts = 0, all = 0;
    for (size_t r = 0; r < job->ranks; r++)
        texts += job->rank[r].trace->text_count;
    tdmi_kernel_sum *sum = tdmi_malloc((texts + 1) * sizeof *sum, "kernels"), *by_text = tdmi_malloc((texts + 1) * sizeof *by_text, "kernels");
    if (sum == NULL || by_text == NULL) {
        tdmi_free(sum);
        tdmi_free(by_text);
        return TDM_ERR_NO_MEMORY;
    }
    for (size_t r = 0; r < job->ranks; r++)
        all += sum_rank(&job->rank[r], by_text, sum + all);
    tdmi_free(by_text);
    qsort(sum, all, sizeof *sum, by_name);
    size_t kept = 0;
    for (size_t i = 0; i < all; i++)
        if (kept > 0 && by_name(&sum[kept - 1], &sum[i]) == 0) {
            sum[kept - 1].count += sum[i].count;
            sum[kept - 1].ns += sum[i].ns;
        } else {
            sum[kept++] = sum[i];
        }
    qsort(sum, kept, sizeof *sum, longest_first);
    *out = (tdmi_kernels){sum, kept};
    return TDM_OK;
}

void tdmi_kernels_free(tdmi_kernels *kernels)
{
    tdmi_free(kernels->of);
    *kernels = (tdmi_kernels){0};
}

/* ---- launches ---- */

static void measure_stream(const tdmi_rank *rank, const tdmi_stream *stream, tdmi_launches *out, double *queued, int64_t *gaps)
{
    const uint32_t *list = rank->gpu_by_stream + stream->first;
    size_t started = 0;
    for (size_t i = 0; i < stream->count; i++) {
        const uint32_t g = list[i], call = rank->launch[g];
        const int64_t start_ns = tdmi_gpu_start(rank, g);
        if (i > 0 && tdmi_gpu_end(rank, list[i - 1]) < start_ns &&
            tdmi_iteration_at(rank, start_ns) == tdmi_iteration_at(rank, tdmi_gpu_end(rank, list[i - 1]))) {
            out->gap_ns += start_ns - tdmi_gpu_end(rank, list[i - 1]);
            ++*gaps;
        }
        if (call == TDMI_NONE)
            continue;
        const int64_t call_ns = tdmi_event_start(rank, call), wait_ns = start_ns - tdmi_event_end(rank, call);
        while (started < i && tdmi_gpu_start(rank, list[started]) <= call_ns)
            started++;
        const int64_t queue = (int64_t)(i - started) + 1;
        out->count++;
        out->delay_ns += wait_ns > 0 ? wait_ns : 0;
        out->queue_most = queue > out->queue_most ? queue : out->queue_most;
        *queued += (double)queue;
    }
}

void tdmi_launches_measure(const tdmi_job *job, size_t place, tdmi_launches *out)
{
    const tdmi_rank *rank = &job->rank[place];
    double queued = 0;
    int64_t gaps = 0;
    *out = (tdmi_launches){0};
    for (size_t s = 0; s < rank->streams; s++)
        measure_stream(rank, &rank->stream[s], out, &queued, &gaps);
    if (out->count > 0) {
        out->delay_ns /= out->count;
        out->queue_mean = queued / (double)out->count;
    }
    out->gap_ns = gaps > 0 ? out->gap_ns / gaps : 0;
}

/* ---- memory ---- */

bool tdmi_memory_measure(const tdmi_rank *rank, tdmi_memory_line *out)
{
    const tdmi_trace *trace = rank->trace;
    *out = (tdmi_memory_line){.most_allocated = -1, .most_reserved = -1, .start_ns = INT64_MAX, .end_ns = INT64_MIN};
    for (size_t i = 0; i < TDMI_MEMORY_POINTS; i++)
        out->allocated[i] = -1;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < trace->event_count; i++) {
            const tdmi_event *e = &trace->event[i];
            const tdmi_memory_point *m = e->kind == TDMI_EVENT_MEMORY && e->detail != TDMI_NONE ? &trace->memory[e->detail] : NULL;
            const int64_t ns = e->start_ns + rank->shift_ns;
            if (m == NULL || m->allocated < 0 || (m->device_type == 0) == rank->on_device)
                continue;
            if (pass == 0) {
                out->start_ns = ns < out->start_ns ? ns : out->start_ns;
                out->end_ns = ns > out->end_ns ? ns : out->end_ns;
                out->most_allocated = m->allocated > out->most_allocated ? m->allocated : out->most_allocated;
                out->most_reserved = m->reserved > out->most_reserved ? m->reserved : out->most_reserved;
                continue;
            }
            const double part = (double)(ns - out->start_ns) / ((double)(out->end_ns - out->start_ns) + 1);
            int64_t *most = &out->allocated[(size_t)(part * TDMI_MEMORY_POINTS)];
            *most = m->allocated > *most ? m->allocated : *most;
        }
    return out->most_allocated >= 0;
}
