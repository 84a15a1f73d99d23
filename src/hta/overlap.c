/* overlap.c - which part of communication runs beside computation. */
#include "hta/rank.h"

#include <math.h>

tdm_status tdmi_hta_overlap(const tdmi_hta_rank *rank, double *pct_out)
{
    tdmi_hta_spans communication, computation = {0};
    tdmi_hta_sweep_times times;
    tdm_status status = tdmi_hta_merge(rank, TDMI_HTA_COMMUNICATION, &communication);
    if (status != TDM_OK)
        return status;
    const double length_ns = tdmi_hta_spans_length(&communication);
    *pct_out = NAN;
    if (length_ns != 0) {
        status = tdmi_hta_merge(rank, TDMI_HTA_COMPUTATION, &computation);
        if (status == TDM_OK)
            status = tdmi_hta_sweep((const tdmi_hta_spans *const[]){&communication, &computation}, (const unsigned[]){1, 2}, 2, &times);
        if (status == TDM_OK)
            *pct_out = 100 * (times.ns[3] / length_ns);
        tdmi_hta_spans_free(&computation);
    }
    tdmi_hta_spans_free(&communication);
    return status;
}
