/* agree.c - an all-gather of (status, text). */
#include "train/agree.h"

#include "core/memory.h"

#include <stdio.h>
#include <string.h>

typedef struct report {
    int32_t status;
    char text[TDMI_ERROR_TEXT_MAX];
} report;

tdm_status tdmi_agree(tdm_group *group, tdm_status mine, bool *everywhere)
{
    int size = tdm_group_size(group);
    *everywhere = false;
    if (size == 1) {
        *everywhere = mine != TDM_OK;
        return mine;
    }
    report own = {.status = (int32_t)mine};
    snprintf(own.text, sizeof own.text, "%s", mine == TDM_OK ? "" : tdm_error_text());
    report *all = tdmi_calloc((size_t)size, sizeof *all, "agreement of ranks");
    if (all == NULL)
        return TDM_ERR_NO_MEMORY;
    tdm_status st = tdm_all_gather(group, &own, all, sizeof own, TDM_U8, NULL);
    for (int r = 0; r < size && st == TDM_OK; r++)
        if (all[r].status != TDM_OK) {
            tdmi_error_set_text(all[r].text);
            *everywhere = true;
            st = (tdm_status)all[r].status;
        }
    tdmi_free(all);
    return st;
}
