/* launch_bound.c - the host cannot give the device work as fast as the device does it: many small kernels, or slow Python between them. */
#include "doctor/finding.h"

#include <stddef.h>
#include <stdio.h>

/* What launching costs where the host does nothing for a kernel: a replayed CUDA graph still takes about a fiftieth. */
#define GRAPH_SHARE 0.02
#define KNOWN_SHARE_MIN 0.8

/* A trace that shows few of the launches (other accelerators, a window that cut them off) says nothing of what they cost. */
static bool launches_are_known(const tdmi_job *job)
{
    size_t known = 0, all = 0;
    for (size_t r = 0; r < job->ranks; r++)
        for (size_t g = 0; g < job->rank[r].gpu_count; g++) {
            known += job->rank[r].launch[g] != TDMI_NONE;
            all++;
        }
    return all > 0 && (double)known >= KNOWN_SHARE_MIN * (double)all;
}

/* The operators that bring a value to the host stay as they are: what they cost is implicit_sync's. */
static int64_t launch_for_nothing(const tdmi_link *link, const void *arg)
{
    const tdmi_readers *r = arg;
    if (link->due == TDMI_DUE_DATA) /* tdmi_case_gain_beyond_loader */
        return 0;
    if (link->due != TDMI_DUE_HOST || (link->event != TDMI_NONE && r->is_part[link->rank][link->event] != 0))
        return link->ns;
    return (int64_t)(GRAPH_SHARE * (double)link->ns);
}

void tdmi_find_launch_bound(tdmi_case *c, tdmi_findings *out)
{
    tdmi_finding f = {.id = "launch_bound", .rank = -1};
    double kernels = 0, kernel_us = 0, host_ms = 0;
    if (!launches_are_known(c->job))
        return;
    tdmi_case_gain_beyond_loader(c, &(tdmi_variation){.change = launch_for_nothing, .arg = &c->readers}, &f.gain);
    if (f.gain.pct < TDMI_GAIN_PCT_MIN)
        return;
    for (size_t r = 0; r < c->job->ranks; r++) {
        kernels += (double)c->breakdown->mean[r].kernels / (double)c->job->ranks;
        kernel_us += (double)tdmi_model_spent(c->model, r, TDMI_DUE_COMPUTE) / 1e3 / (double)c->job->ranks;
        host_ms += (double)tdmi_model_spent(c->model, r, TDMI_DUE_HOST) / 1e6 / (double)c->job->ranks;
    }
    kernel_us = kernels > 0 ? kernel_us / kernels : 0;
    const double behind = tdmi_case_part_pct(c, offsetof(tdmi_split, host_ns));
    f.evidence = json_pack("{s:f, s:f, s:f, s:f}", "device_waits_for_host_pct", behind, "kernels", kernels, "kernel_us", kernel_us, "host_ms", host_ms);
    snprintf(f.text, sizeof f.text, "the device waits for the host %.0f %% of the time: an iteration has %.0f kernels of %.1f us on average, and the host takes %.1f ms to launch them",
             behind, kernels, kernel_us, host_ms);
    snprintf(f.advice, sizeof f.advice, "%s",
             "Compile the model (torch.compile, mode=\"reduce-overhead\" replays CUDA graphs), capture the step with torch.cuda.graph, use a larger batch, "
             "a fused or foreach optimizer (fused=True), and keep Python out of the inner loop");
    tdmi_findings_add(out, &f);
}
