/* temporal.c - HTA's temporal breakdown: from the first kernel to the end of the last, how long nothing ran, how long computation did,
 * and the rest. */
#include "hta/rank.h"

tdm_status tdmi_hta_temporal(const tdmi_hta_rank *rank, tdmi_hta_temporal_figures *out)
{
    tdmi_hta_spans all, computation;
    tdm_status status = tdmi_hta_merge(rank, TDMI_HTA_TYPES, &all);
    if (status != TDM_OK)
        return status;
    *out = (tdmi_hta_temporal_figures){.any = all.count > 0};
    for (size_t i = 0; i < rank->kernel_count; i++)
        out->negative += rank->kernel[i].copies > 0 && rank->kernel[i].dur_ns < 0;
    if (out->any) {
        status = tdmi_hta_merge(rank, TDMI_HTA_COMPUTATION, &computation);
        if (status == TDM_OK) {
            out->span_ns = (double)(all.to[all.count - 1] - all.from[0]);
            out->idle_ns = out->span_ns - tdmi_hta_spans_length(&all);
            out->compute_ns = tdmi_hta_spans_length(&computation);
            out->non_compute_ns = out->span_ns - out->compute_ns - out->idle_ns;
            tdmi_hta_spans_free(&computation);
        }
    }
    tdmi_hta_spans_free(&all);
    return status;
}
