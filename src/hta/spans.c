/* spans.c - unions of kernels, and how long which of them run together. */
#include "hta/rank.h"

#include "core/memory.h"

#include <string.h>

/* A group ends where a kernel starts behind the ends of all before it. With a duration of -1 us (HTA's rounding) a group can have a
 * negative length; that is HTA's, too. */
tdm_status tdmi_hta_merge(const tdmi_hta_rank *rank, tdmi_hta_type type, tdmi_hta_spans *out)
{
    size_t count = 0;
    for (size_t i = 0; i < rank->kernel_count; i++)
        count += rank->kernel[i].copies > 0 && (type == TDMI_HTA_TYPES || rank->kernel[i].type == type);
    *out = (tdmi_hta_spans){.from = tdmi_malloc((count + 1) * 2 * sizeof *out->from, "hta spans")};
    if (out->from == NULL)
        return TDM_ERR_NO_MEMORY;
    out->to = out->from + count + 1;
    int64_t last_end = INT64_MIN;
    for (size_t i = 0; i < rank->kernel_count; i++) {
        const tdmi_hta_kernel *kernel = &rank->kernel[i];
        if (kernel->copies == 0 || (type != TDMI_HTA_TYPES && kernel->type != type))
            continue;
        const int64_t end = kernel->start_ns + kernel->dur_ns;
        if (out->count == 0 || kernel->start_ns > last_end) {
            out->from[out->count] = kernel->start_ns;
            out->to[out->count++] = end;
        } else if (end > out->to[out->count - 1])
            out->to[out->count - 1] = end;
        last_end = end > last_end ? end : last_end;
    }
    return TDM_OK;
}

void tdmi_hta_spans_free(tdmi_hta_spans *spans)
{
    tdmi_free(spans->from);
    *spans = (tdmi_hta_spans){0};
}

double tdmi_hta_spans_length(const tdmi_hta_spans *spans)
{
    double ns = 0;
    for (size_t i = 0; i < spans->count; i++)
        ns += (double)(spans->to[i] - spans->from[i]);
    return ns;
}

/* Ends come before starts of the same time, so that what only touches does not run together. */
tdm_status tdmi_hta_sweep(const tdmi_hta_spans *const *spans, const unsigned *bits, size_t count, tdmi_hta_sweep_times *out)
{
    size_t points = 0, n = 0;
    *out = (tdmi_hta_sweep_times){0};
    for (size_t s = 0; s < count; s++)
        points += 2 * spans[s]->count;
    tdmi_hta_key *key = tdmi_malloc((points + 1) * 2 * sizeof *key, "hta sweep");
    if (key == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t s = count; s-- > 0;) /* the values of points are what is added, plus 8 */
        for (size_t i = 0; i < spans[s]->count; i++)
            key[n++] = (tdmi_hta_key){tdmi_hta_key_of_time(spans[s]->to[i]), 8 - bits[s]};
    for (size_t s = 0; s < count; s++)
        for (size_t i = 0; i < spans[s]->count; i++)
            key[n++] = (tdmi_hta_key){tdmi_hta_key_of_time(spans[s]->from[i]), 8 + bits[s]};
    tdmi_hta_sort(key, key + points + 1, points);
    int running = 0;
    for (size_t i = 0; i + 1 < points; i++) {
        running += (int)key[i].value - 8;
        if (running > 0 && running < 8 && key[i + 1].key > key[i].key) {
            out->ns[running] += (double)(key[i + 1].key - key[i].key);
            out->any[running] = true;
        }
    }
    tdmi_free(key);
    return TDM_OK;
}
