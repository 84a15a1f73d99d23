/* recompute.c - forward operators that run again inside the backward pass: activation checkpointing, paid in time for memory.
 *
 * They carry a forward operator's sequence number on a thread that runs autograd's nodes. Cured: without them and their kernels. */
#include "doctor/edits.h"
#include "doctor/kernel_names.h"

#include "core/memory.h"

#include <stdio.h>
#include <string.h>

typedef struct again {
    double kernels, ns; /* of an iteration and rank */
} again;

static const tdmi_op_detail *detail_of(const tdmi_rank *rank, uint32_t event)
{
    const tdmi_event *e = &rank->trace->event[event];
    return e->kind == TDMI_EVENT_CPU_OP && e->detail != TDMI_NONE ? &rank->trace->op[e->detail] : NULL;
}

/* A forward operator, or the whole of a checkpoint where a trace has no sequence numbers. */
static bool is_forward_op(const tdmi_rank *rank, uint32_t event)
{
    const tdmi_op_detail *d = detail_of(rank, event);
    if (d == NULL || rank->role[event] == TDMI_ROLE_BACKWARD)
        return false;
    return d->sequence >= 0 ? d->forward_thread == 0 : strcmp(tdmi_event_name(rank, event), "CheckpointFunctionBackward") == 0;
}

static tdm_status edit_rank(const tdmi_rank *rank, size_t place, uint32_t gone, uint32_t no_call, tdmi_edits *edits, again *out)
{
    bool *backward = tdmi_launched_inside(rank, tdmi_is_backward_span), *forward = tdmi_launched_inside(rank, is_forward_op);
    bool *accumulates = tdmi_launched_inside(rank, tdmi_is_accumulation_span);
    const bool good = backward != NULL && forward != NULL && accumulates != NULL;
    for (size_t g = 0; good && g < rank->gpu_count; g++) {
        const uint32_t event = rank->gpu[g];
        if (!backward[g] || !forward[g] || accumulates[g] || rank->role[event] == TDMI_ROLE_COMM)
            continue;
        tdmi_edits_mark(edits, place, event, gone);
        tdmi_edits_mark(edits, place, rank->launch[g], no_call);
        out->kernels++;
        out->ns += (double)rank->trace->event[event].dur_ns;
    }
    tdmi_free(backward);
    tdmi_free(forward);
    tdmi_free(accumulates);
    return good ? TDM_OK : TDM_ERR_NO_MEMORY;
}

void tdmi_find_recompute(tdmi_case *c, tdmi_findings *out)
{
    tdmi_finding f = {.id = "recompute", .rank = -1};
    tdmi_edits edits;
    tdmi_edit gone = tdmi_edit_none(), no_call = tdmi_edit_none();
    uint32_t gone_edit = 0, no_call_edit = 0;
    again seen = {0};
    const double iterations = tdmi_job_iterations(c->job);
    if (!c->job->on_device)
        return;
    gone.device_ns = 0;
    gone.no_gap = true;
    no_call.host = 0;
    tdm_status status = tdmi_edits_create(c->job, &edits);
    if (status == TDM_OK)
        status = tdmi_edits_add(&edits, &gone, &gone_edit);
    if (status == TDM_OK)
        status = tdmi_edits_add(&edits, &no_call, &no_call_edit);
    for (size_t r = 0; r < c->job->ranks && status == TDM_OK; r++)
        status = edit_rank(&c->job->rank[r], r, gone_edit, no_call_edit, &edits, &seen);
    if (status == TDM_OK && seen.kernels > 0)
        tdmi_edits_gain(&edits, c->model, &f.gain);
    tdmi_edits_free(&edits);
    out->failed |= status != TDM_OK;
    if (status != TDM_OK || f.gain.pct < TDMI_GAIN_PCT_MIN)
        return;
    seen.kernels /= iterations;
    seen.ns /= iterations;
    f.evidence = json_pack("{s:f, s:f, s:f}", "kernels", seen.kernels, "kernels_ms", seen.ns / 1e6, "share_pct", 100 * seen.ns / (double)c->model->now_ns);
    snprintf(f.text, sizeof f.text, "%.0f kernels an iteration, %.1f ms or %.0f %% of it, repeat the forward pass inside the backward pass (activation checkpointing)", seen.kernels,
             seen.ns / 1e6, 100 * seen.ns / (double)c->model->now_ns);
    snprintf(f.advice, sizeof f.advice, "%s",
             "If torch.cuda.max_memory_allocated() leaves room: checkpoint fewer blocks, or only cheap operators (create_selective_checkpoint_contexts keeps matrix "
             "products and attention); room comes from bf16, FSDP or a smaller batch; if memory is full this is the price");
    tdmi_findings_add(out, &f);
}
