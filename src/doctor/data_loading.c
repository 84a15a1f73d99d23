/* data_loading.c - the main thread waits for batches, or makes them itself, while the device has nothing to do. */
#include "doctor/finding.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct loader {
    bool seen, has_workers;
    int slowest;          /* rank */
    double slowest_ms, mean_ms;
} loader;

static loader look(const tdmi_case *c)
{
    loader l = {.slowest = -1};
    for (size_t r = 0; r < c->job->ranks; r++) {
        const tdmi_rank *rank = &c->job->rank[r];
        const double ms = (double)tdmi_model_spent(c->model, r, TDMI_DUE_DATA) / 1e6;
        for (size_t i = 0; i < rank->host_count && !l.has_workers; i++)
            if (rank->role[rank->host[i]] == TDMI_ROLE_DATA) {
                l.seen = true;
                l.has_workers = strstr(tdmi_event_name(rank, rank->host[i]), "MultiProcessing") != NULL;
            }
        l.mean_ms += ms / (double)c->job->ranks;
        if (l.slowest < 0 || ms > l.slowest_ms) {
            l.slowest = rank->number;
            l.slowest_ms = ms;
        }
    }
    return l;
}

void tdmi_find_data_loading(tdmi_case *c, tdmi_findings *out)
{
    const loader l = look(c);
    tdmi_finding f = {.id = "data_loading", .rank = -1, .gain = c->without_loader};
    if (!l.seen || f.gain.pct < TDMI_GAIN_PCT_MIN)
        return;
    const double share = tdmi_case_spent_pct(c, TDMI_DUE_DATA), idle = tdmi_case_part_pct(c, offsetof(tdmi_split, data_ns));
    f.evidence = json_pack("{s:f, s:f, s:f, s:i, s:f, s:b}", "loading_ms", l.mean_ms, "loading_pct", share, "device_idle_pct", idle,
                           "slowest_rank", l.slowest, "slowest_ms", l.slowest_ms, "workers", l.has_workers);
    snprintf(f.text, sizeof f.text, "the main thread spends %.1f ms of an iteration (%.0f %%) %s", l.mean_ms, share,
             l.has_workers ? "waiting for the loader's workers" : "in the DataLoader, which has no workers: it loads while the device waits");
    snprintf(f.advice, sizeof f.advice, "%s",
             l.has_workers
                 ? "Give DataLoader more num_workers (up to the cores of a rank), persistent_workers=True and a larger prefetch_factor; if that "
                   "brings nothing the storage or the transforms are the limit: decode less, cache, move augmentation to the device"
                 : "Give DataLoader num_workers=4 or more, pin_memory=True and persistent_workers=True, and copy with non_blocking=True");
    tdmi_findings_add(out, &f);
}
