/* stragglers.c - the ranks that HTA takes for late.
 * Of the kernels named ncclKernel... that last at least 1 % of an iteration, the last one in a rank's table counts for each (stream,
 * iteration, name). The (stream, name) whose durations differ most between ranks is looked at: in each iteration the two ranks whose
 * kernel starts last get a point. Current NCCL names its kernels ncclDevKernel...: then there are none, and HTA raises. */
#include "hta/rank.h"

#include "core/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what one rank brings ---- */

/* The iteration of a row: of the CPU by its time, of a stream by that of its launch. */
static uint32_t step_of_kernel(const tdmi_hta_rank *rank, tdmi_hta_iterations *it, const tdmi_hta_kernel *kernel)
{
    const uint32_t partner = kernel->stream > 0 ? tdmi_hta_kernel_partner(rank, kernel) : TDMI_NONE;
    if (partner == TDMI_NONE || rank->trace->event[partner].place == 0 || tdmi_hta_stream(&rank->trace->event[partner]) >= 0)
        return TDMI_NONE;
    return tdmi_hta_iteration_at(it, tdmi_hta_row_start(rank->rounded, &rank->trace->event[partner]));
}

static bool nccl_kernel(const tdmi_hta_rank *rank, const tdmi_hta_kernel *kernel)
{
    return (tdmi_hta_flags(rank, &rank->trace->event[kernel->event]) & TDMI_HTA_NAME_NCCL_KERNEL) != 0;
}

static void see(tdmi_hta_iteration *of_step, uint32_t step, int64_t start_ns, int64_t dur_ns)
{
    if (step == TDMI_NONE)
        return;
    tdmi_hta_iteration *it = &of_step[step];
    it->first_ns = start_ns < it->first_ns ? start_ns : it->first_ns;
    it->last_ns = start_ns + dur_ns > it->last_ns ? start_ns + dur_ns : it->last_ns;
}

static void see_cpu_rows(const tdmi_hta_rank *rank, tdmi_hta_iterations *it, tdmi_hta_iteration *of_step)
{
    for (size_t i = 0; i < rank->trace->event_count; i++) {
        const tdmi_event *event = &rank->trace->event[i];
        int64_t start_ns, dur_ns;
        if (tdmi_hta_stream(event) >= 0 || !TDMI_EVENT_IS_ROW(event->kind) || tdmi_hta_row_copies(rank, event) == 0)
            continue;
        tdmi_hta_row_times(rank->rounded, event, &start_ns, &dur_ns);
        see(of_step, tdmi_hta_iteration_at(it, start_ns), start_ns, dur_ns);
    }
}

static size_t see_kernels(const tdmi_hta_rank *rank, tdmi_hta_iterations *it, tdmi_hta_iteration *of_step, tdmi_hta_candidate *candidate)
{
    size_t count = 0;
    for (size_t i = 0; i < rank->kernel_count; i++) {
        const tdmi_hta_kernel *kernel = &rank->kernel[i];
        const uint32_t step = kernel->copies > 0 && kernel->stream > 0 ? step_of_kernel(rank, it, kernel) : TDMI_NONE;
        see(of_step, step, kernel->start_ns, kernel->dur_ns);
        if (step != TDMI_NONE && nccl_kernel(rank, kernel))
            candidate[count++] = (tdmi_hta_candidate){.iteration = rank->step[step].number,
                                                      .start_ns = kernel->start_ns,
                                                      .dur_ns = kernel->dur_ns,
                                                      .row = tdmi_hta_kernel_row(rank, kernel),
                                                      .name = tdmi_trace_text(rank->trace, kernel->name),
                                                      .stream = kernel->stream};
    }
    return count;
}

tdm_status tdmi_hta_straggler_material(const tdmi_hta_rank *rank, tdmi_hta_rank_figures *out)
{
    tdmi_hta_iterations it;
    size_t kernels = 0;
    tdm_status status = tdmi_hta_iterations_find(rank, &it);
    if (status != TDM_OK)
        return status;
    for (size_t i = 0; i < rank->kernel_count; i++)
        kernels += nccl_kernel(rank, &rank->kernel[i]);
    out->iteration = tdmi_malloc((rank->step_count + 1) * sizeof *out->iteration, "hta iterations");
    out->candidate = tdmi_malloc((kernels + 1) * sizeof *out->candidate, "hta stragglers");
    if (out->iteration != NULL && out->candidate != NULL) {
        for (size_t i = 0; i < rank->step_count; i++)
            out->iteration[i] = (tdmi_hta_iteration){rank->step[i].number, INT64_MAX, INT64_MIN};
        out->iteration_count = rank->step_count;
        see_cpu_rows(rank, &it, out->iteration);
        out->candidate_count = see_kernels(rank, &it, out->iteration, out->candidate);
    } else
        status = TDM_ERR_NO_MEMORY;
    tdmi_hta_iterations_free(&it);
    return status;
}

/* ---- all of them ---- */

typedef struct entry {
    tdmi_hta_candidate kernel;
    size_t rank; /* of figures */
} entry;

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* (stream, name), then iteration, rank and place: entries of one decision stand together. */
static int by_kernel(const void *a, const void *b)
{
    const entry *left = a, *right = b;
    int order = compare(left->kernel.stream, right->kernel.stream);
    order = order != 0 ? order : strcmp(left->kernel.name, right->kernel.name);
    order = order != 0 ? order : compare(left->kernel.iteration, right->kernel.iteration);
    order = order != 0 ? order : compare((int64_t)left->rank, (int64_t)right->rank);
    return order != 0 ? order : (left->kernel.row > right->kernel.row) - (left->kernel.row < right->kernel.row);
}

static bool same_kernel(const entry *a, const entry *b)
{
    return a->kernel.stream == b->kernel.stream && strcmp(a->kernel.name, b->kernel.name) == 0;
}

static int by_number(const void *a, const void *b)
{
    return compare(*(const int64_t *)a, *(const int64_t *)b);
}

/* Its place among the kept iterations; NULL: it is none. */
static const int64_t *find_step(const tdmi_hta_figures *figures, int64_t number)
{
    return figures->step_count > 0 ? bsearch(&number, figures->step, figures->step_count, sizeof number, by_number) : NULL;
}

/* Mean time of an iteration that has rows; `seen` has a place for each kept one. NaN: none has. */
static double mean_iteration_ns(const tdmi_hta_figures *figures, bool *seen)
{
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    size_t count = 0;
    for (size_t r = 0; r < figures->rank_count; r++)
        for (size_t i = 0; i < figures->rank[r].iteration_count; i++) {
            const tdmi_hta_iteration *it = &figures->rank[r].iteration[i];
            const int64_t *step = find_step(figures, it->number);
            if (step == NULL || it->first_ns == INT64_MAX)
                continue;
            count += !seen[step - figures->step];
            seen[step - figures->step] = true;
            first_ns = it->first_ns < first_ns ? it->first_ns : first_ns;
            last_ns = it->last_ns > last_ns ? it->last_ns : last_ns;
        }
    return count > 0 ? (double)(last_ns - first_ns) / (double)count : NAN;
}

/* Long kernels of kept iterations, the last one of each rank for each (stream, name, iteration), sorted. */
static size_t gather(const tdmi_hta_figures *figures, double mean_ns, entry *entries)
{
    size_t count = 0, kept = 0;
    for (size_t r = 0; r < figures->rank_count; r++)
        for (size_t i = 0; i < figures->rank[r].candidate_count; i++) {
            const tdmi_hta_candidate *kernel = &figures->rank[r].candidate[i];
            if (kernel->iteration > 0 && (double)kernel->dur_ns >= mean_ns * 0.01 && find_step(figures, kernel->iteration) != NULL)
                entries[count++] = (entry){*kernel, r};
        }
    qsort(entries, count, sizeof *entries, by_kernel);
    for (size_t i = 0; i < count; i++)
        if (i + 1 == count || !same_kernel(&entries[i], &entries[i + 1]) || entries[i].kernel.iteration != entries[i + 1].kernel.iteration ||
            entries[i].rank != entries[i + 1].rank)
            entries[kept++] = entries[i];
    return kept;
}

/* How far the durations of one iteration lie apart; NaN: one rank only. */
static double deviation(const entry *entries, size_t count, double mean_ns)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)entries[i].kernel.dur_ns / mean_ns;
    for (size_t i = 0; i < count; i++) {
        const double off = (double)entries[i].kernel.dur_ns / mean_ns - sum / (double)count;
        squares += off * off;
    }
    return count > 1 ? sqrt(squares / (double)(count - 1)) : NAN;
}

static size_t iteration_end(const entry *entries, size_t from, size_t to)
{
    size_t end = from + 1;
    while (end < to && entries[end].kernel.iteration == entries[from].kernel.iteration)
        end++;
    return end;
}

/* The mean of the iterations' deviations. */
static double spread(const entry *entries, size_t from, size_t to, double mean_ns)
{
    double sum = 0;
    size_t iterations = 0;
    for (size_t end; from < to; from = end) {
        end = iteration_end(entries, from, to);
        const double of_iteration = deviation(&entries[from], end - from, mean_ns);
        if (!isnan(of_iteration)) {
            sum += of_iteration;
            iterations++;
        }
    }
    return iterations > 0 ? sum / (double)iterations : NAN;
}

/* Points of the ranks in entries [from, to); -1: not one of them. False: HTA raises, an iteration has one rank only. */
static bool give_points(const entry *entries, size_t from, size_t to, int *points)
{
    for (size_t end; from < to; from = end) {
        end = iteration_end(entries, from, to);
        int64_t latest = INT64_MIN, second = INT64_MIN;
        if (end - from < 2)
            return false;
        for (size_t i = from; i < end; i++) {
            const int64_t start_ns = entries[i].kernel.start_ns;
            second = start_ns > latest ? latest : start_ns > second ? start_ns : second;
            latest = start_ns > latest ? start_ns : latest;
        }
        for (size_t i = from; i < end; i++) {
            int *of_rank = &points[entries[i].rank];
            *of_rank = (*of_rank < 0 ? 0 : *of_rank) + (entries[i].kernel.start_ns >= second);
        }
    }
    return true;
}

/* The ranks with most points; of equals the lower one. */
static void choose(tdmi_hta_figures *figures, int *points)
{
    while (figures->straggler_count < 2) {
        size_t best = 0;
        for (size_t r = 1; r < figures->rank_count; r++)
            if (points[r] > points[best])
                best = r;
        if (points[best] < 0)
            return;
        figures->straggler[figures->straggler_count++] = figures->rank[best].rank;
        points[best] = -1;
    }
}

static tdm_status decide(tdmi_hta_figures *figures, entry *entries, bool *seen, int *points)
{
    const double mean_ns = mean_iteration_ns(figures, seen);
    const size_t count = isnan(mean_ns) ? 0 : gather(figures, mean_ns, entries);
    size_t from = 0, to = 0;
    double widest = NAN;
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count && same_kernel(&entries[begin], &entries[end]);)
            end++;
        const double of_kernel = spread(entries, begin, end, mean_ns);
        if (!isnan(of_kernel) && !(of_kernel <= widest)) {
            widest = of_kernel;
            from = begin;
            to = end;
        }
    }
    bool said;
    if (figures->step_count == 0)
        said = tdmi_hta_figures_fail(figures, TDMI_HTA_METRIC_STRAGGLERS, "ValueError: the traces have no ProfilerStep");
    else if (count == 0)
        said = tdmi_hta_figures_fail(figures, TDMI_HTA_METRIC_STRAGGLERS,
                                     "ValueError: no kernel named ncclKernel... lasts 1 %% of an iteration (current NCCL names them ncclDevKernel...)");
    else if (isnan(widest))
        said = tdmi_hta_figures_fail(figures, TDMI_HTA_METRIC_STRAGGLERS, "TypeError: no communication kernel is on two ranks in one iteration");
    else if (!give_points(entries, from, to, points))
        said = tdmi_hta_figures_fail(figures, TDMI_HTA_METRIC_STRAGGLERS, "IndexError: in an iteration one rank alone has the kernel that is compared");
    else {
        choose(figures, points);
        said = true;
    }
    return said ? TDM_OK : TDM_ERR_NO_MEMORY;
}

tdm_status tdmi_hta_stragglers(tdmi_hta_figures *figures)
{
    size_t kernels = 0;
    for (size_t r = 0; r < figures->rank_count; r++)
        kernels += figures->rank[r].candidate_count;
    entry *entries = tdmi_malloc((kernels + 1) * sizeof *entries, "hta stragglers");
    bool *seen = tdmi_calloc(figures->step_count + 1, sizeof *seen, "hta stragglers");
    int *points = tdmi_malloc((figures->rank_count + 1) * sizeof *points, "hta stragglers");
    tdm_status status = TDM_ERR_NO_MEMORY;
    if (entries != NULL && seen != NULL && points != NULL) {
        for (size_t r = 0; r < figures->rank_count; r++)
            points[r] = -1;
        status = decide(figures, entries, seen, points);
    }
    tdmi_free(entries);
    tdmi_free(seen);
    tdmi_free(points);
    return status;
}
