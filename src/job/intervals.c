/* intervals.c - sets of spans as sorted lists. */
#include "job/intervals.h"

#include "core/memory.h"

#include <stdlib.h>

tdm_status tdmi_spans_add(tdmi_spans *spans, int64_t start_ns, int64_t end_ns)
{
    if (end_ns <= start_ns)
        return TDM_OK;
    tdmi_span *more = tdmi_with_room(spans->of, spans->count, &spans->capacity, sizeof *more, "spans");
    if (more == NULL)
        return TDM_ERR_NO_MEMORY;
    spans->of = more;
    spans->of[spans->count++] = (tdmi_span){start_ns, end_ns};
    return TDM_OK;
}

static int by_start(const void *a, const void *b)
{
    const tdmi_span *x = a, *y = b;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

void tdmi_spans_merge(tdmi_spans *spans)
{
    bool sorted = true;
    for (size_t i = 1; i < spans->count && sorted; i++)
        sorted = spans->of[i - 1].start_ns <= spans->of[i].start_ns;
    if (!sorted)
        qsort(spans->of, spans->count, sizeof *spans->of, by_start);
    size_t kept = 0;
    for (size_t i = 0; i < spans->count; i++) {
        const tdmi_span next = spans->of[i];
        if (kept == 0 || next.start_ns > spans->of[kept - 1].end_ns)
            spans->of[kept++] = next;
        else if (next.end_ns > spans->of[kept - 1].end_ns)
            spans->of[kept - 1].end_ns = next.end_ns;
    }
    spans->count = kept;
}

void tdmi_spans_free(tdmi_spans *spans)
{
    tdmi_free(spans->of);
    *spans = (tdmi_spans){0};
}

int64_t tdmi_spans_total(const tdmi_spans *spans)
{
    int64_t total = 0;
    for (size_t i = 0; i < spans->count; i++)
        total += spans->of[i].end_ns - spans->of[i].start_ns;
    return total;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t tdmi_spans_common(const tdmi_spans *a, const tdmi_spans *b)
{
    int64_t total = 0;
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        const tdmi_span x = a->of[i], y = b->of[j];
        const int64_t common = earlier(x.end_ns, y.end_ns) - later(x.start_ns, y.start_ns);
        total += common > 0 ? common : 0;
        if (x.end_ns < y.end_ns)
            i++;
        else
            j++;
    }
    return total;
}

size_t tdmi_spans_after(const tdmi_spans *spans, int64_t ns)
{
    size_t low = 0, high = spans->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (spans->of[middle].end_ns > ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int64_t tdmi_spans_within(const tdmi_spans *spans, int64_t start_ns, int64_t end_ns)
{
    int64_t total = 0;
    for (size_t i = tdmi_spans_after(spans, start_ns); i < spans->count && spans->of[i].start_ns < end_ns; i++)
        total += earlier(spans->of[i].end_ns, end_ns) - later(spans->of[i].start_ns, start_ns);
    return total;
}

tdm_status tdmi_spans_subtract(const tdmi_spans *a, const tdmi_spans *b, tdmi_spans *out)
{
    tdm_status status = TDM_OK;
    out->count = 0;
    size_t j = 0;
    for (size_t i = 0; i < a->count && status == TDM_OK; i++) {
        int64_t at = a->of[i].start_ns;
        const int64_t end = a->of[i].end_ns;
        while (j < b->count && b->of[j].end_ns <= at)
            j++;
        for (size_t k = j; k < b->count && b->of[k].start_ns < end && status == TDM_OK; k++) {
            status = tdmi_spans_add(out, at, earlier(b->of[k].start_ns, end));
            at = later(at, b->of[k].end_ns);
        }
        if (status == TDM_OK)
            status = tdmi_spans_add(out, at, end);
    }
    return status;
}

tdm_status tdmi_spans_intersect(const tdmi_spans *a, const tdmi_spans *b, tdmi_spans *out)
{
    tdm_status status = TDM_OK;
    out->count = 0;
    for (size_t i = 0, j = 0; i < a->count && j < b->count && status == TDM_OK;) {
        const tdmi_span x = a->of[i], y = b->of[j];
        status = tdmi_spans_add(out, later(x.start_ns, y.start_ns), earlier(x.end_ns, y.end_ns));
        if (x.end_ns < y.end_ns)
            i++;
        else
            j++;
    }
    return status;
}

tdm_status tdmi_spans_clip(const tdmi_spans *a, int64_t start_ns, int64_t end_ns, tdmi_spans *out)
{
    tdm_status status = TDM_OK;
    out->count = 0;
    for (size_t i = tdmi_spans_after(a, start_ns); i < a->count && a->of[i].start_ns < end_ns && status == TDM_OK; i++)
        status = tdmi_spans_add(out, later(a->of[i].start_ns, start_ns), earlier(a->of[i].end_ns, end_ns));
    return status;
}
