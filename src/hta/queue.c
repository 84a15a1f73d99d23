/* queue.c - how many operations of a stream are waiting: a call that launches counts +1 at its start, on the stream of what it
 * launched, the start of that -1. Where both happen in one us HTA takes them in no certain order; here the call comes first, so that
 * lengths are at least what they can be. From 1024 on HTA takes the queue for full, and the host for blocked. */
#include "hta/rank.h"

#include "core/memory.h"

enum { FULL = 1024 };

typedef struct point {
    int64_t at_ns, stream;
    int change;
} point;

static bool enqueues(const tdmi_hta_rank *rank, const tdmi_hta_call *call)
{
    const uint32_t gpu = rank->link[call->link].gpu; /* HTA's index_correlation, which has to be above 0 */
    return (call->flags & TDMI_HTA_NAME_ENQUEUES) != 0 && gpu != TDMI_NONE && rank->trace->event[gpu].place > 0 && tdmi_hta_call_kept(rank, call);
}

/* Two passes over calls and kernels: count, then fill. Calls come first, kernels in their order. */
static size_t collect(const tdmi_hta_rank *rank, const uint32_t *calls_of_link, point *points)
{
    size_t count = 0;
    for (size_t i = 0; i < rank->call_count; i++) {
        if (!enqueues(rank, &rank->call[i]))
            continue;
        const tdmi_hta_link *link = &rank->link[rank->call[i].link];
        for (uint32_t k = link->kernel; k < link->next; k++) {
            const tdmi_hta_kernel *kernel = &rank->kernel[rank->by_link[k]];
            for (uint32_t c = 0; c < kernel->copies; c++, count++)
                if (points != NULL)
                    points[count] = (point){rank->call[i].start_ns, kernel->stream, 1};
        }
    }
    for (size_t i = 0; i < rank->kernel_count; i++) {
        const tdmi_hta_kernel *kernel = &rank->kernel[i];
        for (uint32_t c = 0; kernel->link != TDMI_NONE && calls_of_link[kernel->link] > 0 && c < kernel->copies; c++, count++)
            if (points != NULL)
                points[count] = (point){kernel->start_ns, kernel->stream, -1};
    }
    return count;
}

/* HTA asserts that both numbers are equal; they are not if two calls share a correlation. Counted before anything is made. */
static bool numbers_differ(const tdmi_hta_rank *rank, const uint32_t *calls_of_link)
{
    for (size_t i = 0; i < rank->link_count; i++)
        if (calls_of_link[i] > 1)
            for (uint32_t k = rank->link[i].kernel; k < rank->link[i].next; k++)
                if (rank->kernel[rank->by_link[k]].copies > 0)
                    return true;
    return false;
}

/* The points of one stream, sorted by time. */
static tdm_status measure(const tdmi_hta_rank *rank, const point *points, const tdmi_hta_key *key, size_t count, double *value, tdmi_hta_rank_figures *out)
{
    const int64_t stream = points[key[0].value].stream;
    double length = 0, full_ns = 0;
    bool full = false;
    for (size_t i = 0; i < count; i++) {
        value[i] = length += points[key[i].value].change;
        if (length < FULL)
            continue;
        full = true;
        if (i + 1 < count)
            full_ns += (double)(points[key[i + 1].value].at_ns - points[key[i].value].at_ns);
    }
    if (full) { /* of several streams HTA leaves the last */
        out->was_full = true;
        out->full_stream = stream;
        out->full_ns = full_ns;
        out->full_ratio = full_ns / (double)(rank->kept_last_ns - rank->kept_first_ns);
    }
    out->queue[out->queue_count].stream = stream;
    return tdmi_hta_describe_values(value, count, &out->queue[out->queue_count++].length);
}

static tdm_status measure_all(const tdmi_hta_rank *rank, const point *points, size_t count, tdmi_hta_rank_figures *out)
{
    tdmi_hta_key *key = tdmi_malloc((count + 1) * 2 * sizeof *key, "hta queue");
    double *value = tdmi_malloc((count + 1) * sizeof *value, "hta queue");
    tdm_status status = key != NULL && value != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    size_t streams = 0;
    if (status == TDM_OK) {
        for (size_t i = 0; i < count; i++)
            key[i] = (tdmi_hta_key){tdmi_hta_key_of_time(points[i].at_ns), (uint32_t)i};
        tdmi_hta_sort(key, key + count + 1, count);
        for (size_t i = 0; i < count; i++)
            key[i].key = tdmi_hta_key_of_time(points[key[i].value].stream);
        tdmi_hta_sort(key, key + count + 1, count);
        for (size_t i = 0; i < count; i++)
            streams += i == 0 || key[i].key != key[i - 1].key;
        out->queue = tdmi_malloc((streams + 1) * sizeof *out->queue, "hta queue");
        status = out->queue != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    }
    for (size_t from = 0, to; status == TDM_OK && from < count; from = to) {
        for (to = from + 1; to < count && key[to].key == key[from].key;)
            to++;
        status = measure(rank, points, key + from, to - from, value, out);
    }
    tdmi_free(key);
    tdmi_free(value);
    return status;
}

tdm_status tdmi_hta_queue(const tdmi_hta_rank *rank, tdmi_hta_rank_figures *out)
{
    uint32_t *calls_of_link = tdmi_calloc(rank->link_count + 1, sizeof *calls_of_link, "hta queue");
    if (calls_of_link == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < rank->call_count; i++)
        calls_of_link[rank->call[i].link] += enqueues(rank, &rank->call[i]);
    tdm_status status = TDM_OK;
    out->queue_unequal = numbers_differ(rank, calls_of_link);
    if (!out->queue_unequal) {
        const size_t count = collect(rank, calls_of_link, NULL);
        point *points = tdmi_malloc((count + 1) * sizeof *points, "hta queue");
        status = points != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
        if (status == TDM_OK) {
            collect(rank, calls_of_link, points);
            status = measure_all(rank, points, count, out);
        }
        tdmi_free(points);
    }
    tdmi_free(calls_of_link);
    return status;
}
