/* launches.c - calls that launch against what they launched: how long each took, and how long the launch was on its way. */
#include "hta/rank.h"

#include "core/memory.h"

#include <math.h>

enum { SLOW_CALL_NS = 50000, LATE_KERNEL_NS = 100000 };

static void add(tdmi_hta_launch_figures *out, const tdmi_hta_call *call, const tdmi_hta_kernel *kernel)
{
    const int64_t delay_ns = kernel->start_ns - call->start_ns - call->dur_ns;
    const double copies = kernel->copies, delay = delay_ns > 0 ? (double)delay_ns : 0;
    out->count += copies;
    out->cpu_ns += copies * (double)call->dur_ns;
    out->gpu_ns += copies * (double)kernel->dur_ns;
    out->delay_ns += copies * delay;
    out->delay_max_ns = isnan(out->delay_max_ns) || delay > out->delay_max_ns ? delay : out->delay_max_ns;
    out->short_kernels += call->dur_ns <= SLOW_CALL_NS && kernel->dur_ns < call->dur_ns ? copies : 0;
    out->slow_calls += call->dur_ns > SLOW_CALL_NS ? copies : 0;
    out->late_kernels += delay > LATE_KERNEL_NS ? copies : 0;
}

static void meet(const tdmi_hta_rank *rank, const tdmi_hta_call *call, tdmi_hta_launch_figures *out)
{
    const tdmi_hta_link *link = &rank->link[call->link];
    for (uint32_t k = link->kernel; k < link->next; k++)
        if (rank->kernel[rank->by_link[k]].copies > 0)
            add(out, call, &rank->kernel[rank->by_link[k]]);
}

/* Every kept call without a stream whose correlation a launching call has meets every kernel of it. */
tdm_status tdmi_hta_launches(const tdmi_hta_rank *rank, tdmi_hta_rank_figures *out)
{
    bool *launching = tdmi_calloc(rank->link_count + 1, sizeof *launching, "hta launches");
    if (launching == NULL)
        return TDM_ERR_NO_MEMORY;
    out->launches = (tdmi_hta_launch_figures){.delay_max_ns = NAN};
    for (size_t i = 0; i < rank->call_count; i++)
        if ((rank->call[i].flags & TDMI_HTA_NAME_LAUNCHES) != 0 && tdmi_hta_call_kept(rank, &rank->call[i]))
            launching[rank->call[i].link] = true;
    for (size_t i = 0; i < rank->call_count; i++)
        if (rank->call[i].stream == -1 && launching[rank->call[i].link] && tdmi_hta_call_kept(rank, &rank->call[i]))
            meet(rank, &rank->call[i], &out->launches);
    tdmi_free(launching);
    return TDM_OK;
}
