/* filter.c - what HTA leaves of a rank: of a job of two and more iterations the last one is dropped. CPU rows stay if they begin before
 * the last ProfilerStep does; rows of the GPU stay once for each row of the CPU that stays and has their correlation. */
#include "hta/rank.h"

#include "core/memory.h"

static uint32_t copies_of(const tdmi_hta_rank *rank, bool device, uint32_t link, int64_t start_ns)
{
    if (!rank->filtered)
        return 1;
    if (!device)
        return start_ns < rank->limit_ns;
    const uint64_t copies = link != TDMI_NONE ? rank->link[link].kept : rank->plain_kept;
    return copies < UINT32_MAX ? (uint32_t)copies : UINT32_MAX;
}

uint32_t tdmi_hta_row_copies(const tdmi_hta_rank *rank, const tdmi_event *event)
{
    const bool device = tdmi_hta_row_on_device(rank, event);
    const uint32_t link = device && event->correlation != TDMI_NO_CORRELATION ? tdmi_hta_link_find(rank, event->correlation) : TDMI_NONE;
    return copies_of(rank, device, link, tdmi_hta_row_start(rank->rounded, event));
}

/* The first ns that is too late for a row of the CPU. With the last iteration HTA means everything to its end, but compares times
 * from the job's beginning with an end that is not: that lets everything pass unless the file counts from about 0. */
static int64_t limit_of(const tdmi_hta_rank *rank, bool include_last, int64_t job_first_ns)
{
    int64_t limit_ns = INT64_MIN;
    for (size_t i = 0; i < rank->step_count; i++) {
        const tdmi_hta_step *step = &rank->step[i];
        const int64_t late_ns = include_last ? step->end_ns + job_first_ns + 1 : step->start_ns;
        if (!step->device && late_ns > limit_ns)
            limit_ns = late_ns;
    }
    return limit_ns;
}

static void keep(tdmi_hta_rank *rank, int64_t start_ns, double copies)
{
    rank->row_count += copies;
    rank->kept_first_ns = start_ns < rank->kept_first_ns ? start_ns : rank->kept_first_ns;
    rank->kept_last_ns = start_ns > rank->kept_last_ns ? start_ns : rank->kept_last_ns;
}

/* Rows of the CPU, which say how often those of the GPU stay. */
static void keep_calls(tdmi_hta_rank *rank)
{
    for (size_t i = 0; i < rank->link_count; i++)
        rank->link[i].kept = 0;
    for (size_t i = 0; i < rank->call_count; i++)
        rank->link[rank->call[i].link].kept += tdmi_hta_call_kept(rank, &rank->call[i]);
    rank->plain_kept = 0;
    for (size_t i = 0; i < rank->trace->event_count; i++) {
        const tdmi_event *event = &rank->trace->event[i];
        if (!TDMI_EVENT_IS_ROW(event->kind) || tdmi_hta_row_on_device(rank, event))
            continue;
        const int64_t start_ns = tdmi_hta_row_start(rank->rounded, event);
        if (copies_of(rank, false, TDMI_NONE, start_ns) == 0)
            continue;
        rank->plain_kept += event->correlation == TDMI_NO_CORRELATION;
        keep(rank, start_ns, 1);
    }
}

/* Rows on the device that are no kernels: synchronisations without a stream. */
static void keep_syncs(tdmi_hta_rank *rank)
{
    for (size_t i = 0; rank->sync_count > 0 && i < rank->trace->event_count; i++) {
        const tdmi_event *event = &rank->trace->event[i];
        if (tdmi_hta_stream(event) != -1 || !TDMI_EVENT_IS_ROW(event->kind) || !tdmi_hta_row_on_device(rank, event))
            continue;
        const uint32_t copies = tdmi_hta_row_copies(rank, event);
        if (copies > 0)
            keep(rank, tdmi_hta_row_start(rank->rounded, event), copies);
    }
}

/* By start; equal starts in HTA's order of rows: first those of the device, if the filter has parted them. */
static tdm_status sort_kernels(tdmi_hta_rank *rank)
{
    const size_t count = rank->kernel_count;
    tdmi_hta_key *key = tdmi_malloc((count + 1) * 2 * sizeof *key, "hta order");
    tdmi_hta_kernel *sorted = tdmi_malloc((count + 1) * sizeof *sorted, "hta kernels");
    size_t n = 0;
    if (key != NULL && sorted != NULL) {
        for (int device = 1; device >= 0; device--)
            for (size_t i = 0; i < count; i++)
                if (!rank->filtered ? device == 1 : rank->kernel[i].device == (device == 1))
                    key[n++] = (tdmi_hta_key){tdmi_hta_key_of_time(rank->kernel[i].start_ns), (uint32_t)i};
        tdmi_hta_sort(key, key + count + 1, count);
        for (size_t i = 0; i < count; i++)
            sorted[i] = rank->kernel[key[i].value];
        tdmi_hta_kernel *old = rank->kernel;
        rank->kernel = sorted;
        sorted = old;
    }
    const bool fine = key != NULL && sorted != NULL;
    tdmi_free(key);
    tdmi_free(sorted);
    return fine ? TDM_OK : TDM_ERR_NO_MEMORY;
}

static void index_by_link(tdmi_hta_rank *rank)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < rank->link_count; i++)
        rank->link[i].next = 0;
    for (size_t i = 0; i < rank->kernel_count; i++)
        if (rank->kernel[i].link != TDMI_NONE)
            rank->link[rank->kernel[i].link].next++;
    for (size_t i = 0; i < rank->link_count; i++) {
        rank->link[i].kernel = sum;
        sum += rank->link[i].next;
        rank->link[i].next = rank->link[i].kernel;
    }
    for (size_t i = 0; i < rank->kernel_count; i++)
        if (rank->kernel[i].link != TDMI_NONE)
            rank->by_link[rank->link[rank->kernel[i].link].next++] = (uint32_t)i;
}

/* Rows that HTA's joins would make of the kernels. It multiplies rows that share a correlation; no profiler writes that, and a crooked
 * file must not take all memory. */
static double joined_rows(const tdmi_hta_rank *rank)
{
    double rows = 0;
    for (size_t i = 0; i < rank->kernel_count; i++) {
        const tdmi_hta_kernel *kernel = &rank->kernel[i];
        const uint32_t partner = tdmi_hta_kernel_partner(rank, kernel);
        double each = 1 + (kernel->link != TDMI_NONE ? rank->link[kernel->link].kept : 0);
        if (partner != TDMI_NONE && tdmi_hta_row_on_device(rank, &rank->trace->event[partner]))
            each += tdmi_hta_row_copies(rank, &rank->trace->event[partner]);
        rows += each * kernel->copies;
    }
    return rows;
}

tdm_status tdmi_hta_rank_filter(tdmi_hta_rank *rank, tdmi_hta_filter filter, int64_t job_first_ns)
{
    rank->filtered = filter != TDMI_HTA_KEEP_ALL;
    rank->limit_ns = limit_of(rank, filter == TDMI_HTA_INCLUDE_LAST, job_first_ns);
    rank->row_count = 0;
    rank->kept_first_ns = INT64_MAX;
    rank->kept_last_ns = INT64_MIN;
    keep_calls(rank);
    keep_syncs(rank);
    for (size_t i = 0; i < rank->kernel_count; i++) {
        tdmi_hta_kernel *kernel = &rank->kernel[i];
        kernel->copies = copies_of(rank, kernel->device, kernel->link, kernel->start_ns);
        if (kernel->copies > 0 && kernel->device)
            keep(rank, kernel->start_ns, kernel->copies);
    }
    const double rows = joined_rows(rank);
    if (rows > 8 * (double)rank->kernel_count + 1e6)
        return tdmi_fail(TDM_ERR_BAD_FILE,
                         "%s: HTA would make %.0f rows of %zu kernels, because many calls share a correlation: no profiler wrote that, "
                         "and HTA's numbers of it are not computed; tandem doctor without --hta reads it",
                         rank->trace->path, rows, rank->kernel_count);
    const tdm_status status = sort_kernels(rank);
    if (status == TDM_OK)
        index_by_link(rank);
    return status;
}
