/* edits.c - see edits.h. */
#include "doctor/edits.h"

#include "core/memory.h"

tdmi_edit tdmi_edit_none(void)
{
    return (tdmi_edit){.device = 1, .device_ns = -1, .host = 1, .host_most_ns = -1};
}

tdm_status tdmi_edits_create(const tdmi_job *job, tdmi_edits *out)
{
    *out = (tdmi_edits){.ranks = job->ranks};
    out->of = tdmi_calloc(job->ranks + 1, sizeof *out->of, "doctor");
    const tdmi_edit none = tdmi_edit_none();
    uint32_t zero;
    tdm_status status = out->of != NULL ? tdmi_edits_add(out, &none, &zero) : TDM_ERR_NO_MEMORY;
    for (size_t r = 0; r < job->ranks && status == TDM_OK; r++) {
        out->of[r] = tdmi_calloc(job->rank[r].trace->event_count + 1, sizeof **out->of, "doctor");
        status = out->of[r] != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    }
    if (status != TDM_OK)
        tdmi_edits_free(out);
    return status;
}

tdm_status tdmi_edits_add(tdmi_edits *edits, const tdmi_edit *edit, uint32_t *out)
{
    tdmi_edit *more = tdmi_with_room(edits->edit, edits->count, &edits->capacity, sizeof *more, "doctor");
    if (more == NULL)
        return TDM_ERR_NO_MEMORY;
    edits->edit = more;
    edits->edit[edits->count] = *edit;
    *out = (uint32_t)edits->count++;
    return TDM_OK;
}

void tdmi_edits_free(tdmi_edits *edits)
{
    for (size_t r = 0; edits->of != NULL && r < edits->ranks; r++)
        tdmi_free(edits->of[r]);
    tdmi_free(edits->of);
    tdmi_free(edits->edit);
    *edits = (tdmi_edits){0};
}

static int64_t edited(const tdmi_link *link, const void *arg)
{
    const tdmi_edits *edits = arg;
    if (link->due == TDMI_DUE_PLAN)
        return link->ns + edits->plan_ns[link->event];
    if (link->event == UINT32_MAX || edits->of[link->rank][link->event] == 0)
        return link->due == TDMI_DUE_PREFETCH ? TDMI_CUT : link->ns;
    const tdmi_edit *e = &edits->edit[edits->of[link->rank][link->event]];
    switch (link->due) {
    case TDMI_DUE_COMPUTE:
    case TDMI_DUE_COPY:
    case TDMI_DUE_TRANSFER:
        return e->device_ns >= 0 ? e->device_ns : (int64_t)(e->device * (double)link->ns);
    case TDMI_DUE_GAP:
        return e->own_stream ? TDMI_CUT : e->no_gap ? 0 : link->ns;
    case TDMI_DUE_LAUNCH:
    case TDMI_DUE_EVENT:
        return e->replanned ? TDMI_CUT : link->ns;
    case TDMI_DUE_SYNC:
        return e->never_waits ? TDMI_CUT : link->ns;
    case TDMI_DUE_HOST:
    case TDMI_DUE_PAUSE: {
        const int64_t ns = (int64_t)(e->host * (double)link->ns);
        return e->host_most_ns >= 0 && ns > e->host_most_ns ? e->host_most_ns : ns;
    }
    default:
        return link->ns;
    }
}

void tdmi_edits_gain(const tdmi_edits *edits, tdmi_model *model, tdmi_gain *out)
{
    tdmi_model_what_if(model, &(tdmi_variation){.change = edited, .arg = edits, .also = edits->also}, out);
}

void tdmi_gain_widen(tdmi_gain *gain, const tdmi_gain *other)
{
    gain->low = other->low < gain->low ? other->low : gain->low;
    gain->high = other->high > gain->high ? other->high : gain->high;
}
