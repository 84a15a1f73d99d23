/* idle.c - gaps between a stream's kernels and whom HTA blames for them.
 *
 *   call     ---|            the launch came after the end of the kernel before: the host was late (host_wait)
 *   kernels  ====  gap ====  else a gap under 30 us is the price of a launch (kernel_wait), a longer one is something else (other)
 *
 * The kernel before is the one that started before, not the one that ended last, so gaps can be negative. The first kernel of a
 * stream has no gap but counts as `other`, which therefore is always there. */
#include "hta/rank.h"

#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT_GAP_NS = 30000 };

/* Categories whose rows count; synchronisations do not. */
static bool counts(const tdmi_trace *trace, uint16_t category)
{
    static const char *const names[] = {"kernel", "Kernel", "gpu_memset", "Memset", "gpu_memcpy", "Memcpy", "mtia_ccp_events"};
    const char *text = category < trace->category_count ? tdmi_trace_text(trace, trace->category[category].text) : "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0)
            return true;
    return false;
}

/* What has been seen of a stream. */
typedef struct state {
    tdmi_hta_idle_figures figures;
    uint64_t first_row;
    int64_t end_ns;
    bool begun;
} state;

static void add_gap(state *s, const tdmi_hta_kernel *kernel, bool launched, int64_t launch_ns)
{
    tdmi_hta_idle_kind kind = TDMI_HTA_OTHER_WAIT;
    double gap_ns = 0;
    if (s->begun) {
        gap_ns = (double)(kernel->start_ns - s->end_ns);
        kind = launched && launch_ns > s->end_ns ? TDMI_HTA_HOST_WAIT : gap_ns < SHORT_GAP_NS ? TDMI_HTA_KERNEL_WAIT : TDMI_HTA_OTHER_WAIT;
    }
    s->figures.ns[kind] += gap_ns;
    s->figures.any[kind] = true;
    s->begun = true;
    s->end_ns = kernel->start_ns + kernel->dur_ns;
}

/* A kernel stands in the table once for each of its launches there. */
static void add_kernel(const tdmi_hta_rank *rank, const tdmi_hta_kernel *kernel, state *s)
{
    const uint32_t partner = tdmi_hta_kernel_partner(rank, kernel);
    const tdmi_event *launch = partner != TDMI_NONE ? &rank->trace->event[partner] : NULL;
    const uint32_t launches = launch != NULL ? tdmi_hta_row_copies(rank, launch) : 0;
    const int64_t launch_ns = launches > 0 ? tdmi_hta_row_start(rank->rounded, launch) : 0;
    s->first_row = !s->begun || tdmi_hta_kernel_row(rank, kernel) < s->first_row ? tdmi_hta_kernel_row(rank, kernel) : s->first_row;
    for (uint32_t c = 0; c < kernel->copies; c++)
        for (uint32_t l = 0; l < launches || l == 0; l++)
            add_gap(s, kernel, launches > 0, launch_ns);
}

static int by_first_row(const void *a, const void *b)
{
    const state *left = a, *right = b;
    return (left->first_row > right->first_row) - (left->first_row < right->first_row);
}

/* The kernels that count, stream by stream, by start within one. */
static size_t sort_by_stream(const tdmi_hta_rank *rank, tdmi_hta_key *key, size_t *streams)
{
    bool known[UINT16_MAX + 1] = {false}, good[UINT16_MAX + 1];
    size_t count = 0;
    for (size_t i = 0; i < rank->kernel_count; i++) {
        const uint16_t category = rank->trace->event[rank->kernel[i].event].category;
        if (!known[category]) {
            good[category] = counts(rank->trace, category);
            known[category] = true;
        }
        if (good[category] && rank->kernel[i].copies > 0)
            key[count++] = (tdmi_hta_key){tdmi_hta_key_of_time(rank->kernel[i].stream), (uint32_t)i};
    }
    tdmi_hta_sort(key, key + rank->kernel_count + 1, count);
    *streams = count > 0;
    for (size_t i = 1; i < count; i++)
        *streams += key[i].key != key[i - 1].key;
    return count;
}

tdm_status tdmi_hta_idle(const tdmi_hta_rank *rank, tdmi_hta_rank_figures *out)
{
    tdmi_hta_key *key = tdmi_malloc((rank->kernel_count + 1) * 2 * sizeof *key, "hta idle");
    if (key == NULL)
        return TDM_ERR_NO_MEMORY;
    size_t streams, at = 0;
    const size_t count = sort_by_stream(rank, key, &streams);
    state *states = tdmi_calloc(streams + 1, sizeof *states, "hta idle");
    out->idle = tdmi_malloc((streams + 1) * sizeof *out->idle, "hta idle");
    if (states != NULL && out->idle != NULL) {
        for (size_t i = 0; i < count; i++) {
            at += i > 0 && key[i].key != key[i - 1].key;
            states[at].figures.stream = rank->kernel[key[i].value].stream;
            add_kernel(rank, &rank->kernel[key[i].value], &states[at]);
        }
        qsort(states, streams, sizeof *states, by_first_row);
        for (size_t i = 0; i < streams; i++)
            out->idle[i] = states[i].figures;
        out->idle_count = streams;
    }
    const bool fine = states != NULL && out->idle != NULL;
    tdmi_free(states);
    tdmi_free(key);
    return fine ? TDM_OK : TDM_ERR_NO_MEMORY;
}
