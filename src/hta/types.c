/* types.c - how long which types of kernels ran together: COMPUTATION, COMMUNICATION, MEMORY. */
#include "hta/rank.h"

tdm_status tdmi_hta_types(const tdmi_hta_rank *rank, tdmi_hta_sweep_times *with_memory, tdmi_hta_sweep_times *without)
{
    static const unsigned bits[] = {1, 2, 4};
    tdmi_hta_spans spans[3] = {0};
    const tdmi_hta_spans *const pointers[] = {&spans[0], &spans[1], &spans[2]};
    tdm_status status = TDM_OK;
    for (int type = TDMI_HTA_COMPUTATION; status == TDM_OK && type <= TDMI_HTA_MEMORY; type++)
        status = tdmi_hta_merge(rank, (tdmi_hta_type)type, &spans[type]);
    if (status == TDM_OK)
        status = tdmi_hta_sweep(pointers, bits, 3, with_memory);
    if (status == TDM_OK)
        status = tdmi_hta_sweep(pointers, bits, 2, without);
    for (int type = 0; type < 3; type++)
        tdmi_hta_spans_free(&spans[type]);
    return status;
}
