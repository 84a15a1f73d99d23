/* optimizer_not_fused.c - an update made by hundreds of small kernels, a few a parameter or one list operation after the other.
 *
 * The model: of each kernel's time what is above an empty kernel's shrinks to 7/20 - fused AdamW reads and writes seven tensors a
 * parameter, the loop about twenty - (interval: 6/10 to 1/4), and one launch serves 48 tensors. */
#include "doctor/edits.h"
#include "doctor/kernel_names.h"

#include "core/memory.h"

#include <stdio.h>
#include <string.h>

#define KERNELS_MIN 30
#define EMPTY_KERNEL_NS 2000
#define BYTES_LEFT 0.35
#define BYTES_LEFT_MOST 0.6
#define BYTES_LEFT_LEAST 0.25
/* Kernels of a loop that one launch of a fused optimizer stands for: eight a tensor, 48 tensors. */
#define KERNELS_A_LAUNCH (8 * 48)

typedef struct update {
    double kernels, ns; /* of an iteration and rank */
    bool list;          /* by list operations (foreach) */
} update;

static tdm_status edit_rank(const tdmi_rank *rank, size_t place, double bytes_left, tdmi_edits *edits, update *out)
{
    uint8_t *names = tdmi_names_of(rank);
    bool *inside = tdmi_launched_inside(rank, tdmi_is_optimizer_span);
    tdmi_edit no_call = tdmi_edit_none();
    uint32_t none = 0;
    no_call.host = 0;
    tdm_status status = names != NULL && inside != NULL ? tdmi_edits_add(edits, &no_call, &none) : TDM_ERR_NO_MEMORY;
    size_t seen = 0;
    for (size_t g = 0; g < rank->gpu_count && status == TDM_OK; g++) {
        const uint32_t event = rank->gpu[g];
        const char *name = tdmi_event_name(rank, event);
        const int64_t ns = rank->trace->event[event].dur_ns;
        if (!inside[g] || rank->role[event] != TDMI_ROLE_COMPUTE || tdmi_is_named(rank, names, event, TDMI_NAME_FUSED_OPTIMIZER))
            continue;
        const bool list = strstr(name, "multi_tensor_apply") != NULL, stays = list ? seen % 8 == 0 : seen % KERNELS_A_LAUNCH == 0;
        tdmi_edit less = tdmi_edit_none();
        uint32_t device;
        less.device_ns = (ns > EMPTY_KERNEL_NS ? (int64_t)(bytes_left * (double)(ns - EMPTY_KERNEL_NS)) : 0) + (stays ? EMPTY_KERNEL_NS : 0);
        less.no_gap = !stays;
        status = tdmi_edits_add(edits, &less, &device);
        if (status != TDM_OK)
            break;
        tdmi_edits_mark(edits, place, event, device);
        if (!stays)
            tdmi_edits_mark(edits, place, rank->launch[g], none);
        out->kernels++;
        out->ns += (double)ns;
        out->list |= list;
        seen++;
    }
    tdmi_free(names);
    tdmi_free(inside);
    return status;
}

/* Of an iteration and rank: from the first to the last of the optimizer on its thread. */
static double host_ns(const tdmi_case *c)
{
    double sum = 0;
    for (size_t r = 0; r < c->job->ranks; r++)
        sum += (double)c->breakdown->mean[r].optimizer_ns;
    return c->job->ranks > 0 ? sum / (double)c->job->ranks : 0;
}

static tdm_status gain_of(tdmi_case *c, double bytes_left, tdmi_gain *out, update *seen)
{
    tdmi_edits edits;
    const double iterations = tdmi_job_iterations(c->job);
    *seen = (update){0};
    tdm_status status = tdmi_edits_create(c->job, &edits);
    for (size_t r = 0; r < c->job->ranks && status == TDM_OK; r++)
        status = edit_rank(&c->job->rank[r], r, bytes_left, &edits, seen);
    if (status == TDM_OK && seen->kernels >= KERNELS_MIN * iterations) {
        tdmi_edits_gain(&edits, c->model, out);
        seen->kernels /= iterations;
        seen->ns /= iterations;
    }
    tdmi_edits_free(&edits);
    return status;
}

void tdmi_find_optimizer_not_fused(tdmi_case *c, tdmi_findings *out)
{
    tdmi_finding f = {.id = "optimizer_not_fused", .rank = -1, .explains = "launch_bound", .explains_share = 0.6};
    tdmi_gain other = {0};
    update seen;
    if (!c->job->on_device)
        return;
    tdm_status status = gain_of(c, BYTES_LEFT, &f.gain, &seen);
    if (status == TDM_OK && f.gain.pct >= TDMI_GAIN_PCT_MIN) {
        status = gain_of(c, BYTES_LEFT_MOST, &other, &seen);
        tdmi_gain_widen(&f.gain, &other);
        if (status == TDM_OK)
            status = gain_of(c, BYTES_LEFT_LEAST, &other, &seen);
        tdmi_gain_widen(&f.gain, &other);
    }
    out->failed |= status != TDM_OK;
    if (status != TDM_OK || f.gain.pct < TDMI_GAIN_PCT_MIN)
        return;
    const double iteration_ns = (double)c->model->now_ns, host = host_ns(c);
    f.evidence = json_pack("{s:f, s:f, s:f, s:f, s:f, s:s, s:s}", "kernels", seen.kernels, "kernels_ms", seen.ns / 1e6, "share_pct", 100 * seen.ns / iteration_ns,
                           "host_ms", host / 1e6, "host_share_pct", 100 * host / iteration_ns, "form", seen.list ? "foreach" : "loop", "model",
                           "7/20 (1/4 to 6/10) of the bytes, one launch for 48 tensors");
    snprintf(f.text, sizeof f.text, "the optimizer takes %.1f ms of the host, %.0f %% of an iteration, to launch %.0f kernels that take %.1f ms, %.0f %%, on the device, "
             "because it %s", host / 1e6, 100 * host / iteration_ns, seen.kernels, seen.ns / 1e6, 100 * seen.ns / iteration_ns,
             seen.list ? "makes one list operation after the other" : "goes through the parameters one by one");
    snprintf(f.advice, sizeof f.advice, "%s",
             "Give the optimizer fused=True (Adam, AdamW, SGD, Adagrad on GPUs), or foreach=True where fused does not exist; others: torch.compile(optimizer.step)");
    tdmi_findings_add(out, &f);
}
