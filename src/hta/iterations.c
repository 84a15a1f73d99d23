/* iterations.c - which iteration a time belongs to: the last ProfilerStep of the file that contains it.
 * Steps are painted on a line from the last to the first; what has its colour keeps it. */
#include "hta/rank.h"

#include "core/memory.h"

/* The piece that begins at this bound, or the first behind it. */
static size_t piece_at(const tdmi_hta_iterations *it, int64_t ns)
{
    size_t low = 0, high = it->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (it->bound[middle] < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first piece from i on that has no colour; paths get shorter on the way. */
static size_t next_free(uint32_t *next, size_t i)
{
    while (next[i] != i) {
        next[i] = next[next[i]];
        i = next[i];
    }
    return i;
}

tdm_status tdmi_hta_iterations_find(const tdmi_hta_rank *rank, tdmi_hta_iterations *out)
{
    tdmi_hta_iterations it = {0};
    size_t bounds = 0;
    it.bound = tdmi_malloc((2 * rank->step_count + 1) * sizeof *it.bound, "hta iterations");
    it.step = tdmi_malloc((2 * rank->step_count + 1) * sizeof *it.step, "hta iterations");
    uint32_t *next = tdmi_malloc((2 * rank->step_count + 1) * sizeof *next, "hta iterations");
    if (it.bound == NULL || it.step == NULL || next == NULL) {
        tdmi_free(next);
        tdmi_hta_iterations_free(&it);
        return TDM_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < rank->step_count; i++)
        if (rank->step[i].numbered && rank->step[i].end_ns > rank->step[i].start_ns) {
            it.bound[bounds++] = rank->step[i].start_ns;
            it.bound[bounds++] = rank->step[i].end_ns;
        }
    const size_t different = tdmi_hta_unite(it.bound, bounds);
    it.count = different > 0 ? different - 1 : 0;
    for (size_t i = 0; i <= it.count; i++) {
        it.step[i] = TDMI_NONE;
        next[i] = (uint32_t)i;
    }
    for (size_t i = rank->step_count; i-- > 0;) {
        const tdmi_hta_step *step = &rank->step[i];
        if (!step->numbered || step->end_ns <= step->start_ns)
            continue;
        for (size_t p = next_free(next, piece_at(&it, step->start_ns)); p < it.count && it.bound[p] < step->end_ns; p = next_free(next, p)) {
            it.step[p] = (uint32_t)i;
            next[p] = (uint32_t)p + 1;
        }
    }
    tdmi_free(next);
    *out = it;
    return TDM_OK;
}

void tdmi_hta_iterations_free(tdmi_hta_iterations *iterations)
{
    tdmi_free(iterations->bound);
    tdmi_free(iterations->step);
    *iterations = (tdmi_hta_iterations){0};
}

uint32_t tdmi_hta_iteration_at(tdmi_hta_iterations *it, int64_t ns)
{
    if (it->count == 0 || ns < it->bound[0] || ns >= it->bound[it->count])
        return TDMI_NONE;
    if (ns < it->bound[it->last] || ns >= it->bound[it->last + 1]) {
        const size_t piece = piece_at(it, ns);
        it->last = piece < it->count && it->bound[piece] == ns ? piece : piece - 1;
    }
    return it->step[it->last];
}
