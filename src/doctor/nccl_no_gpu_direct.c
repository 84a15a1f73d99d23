/* nccl_no_gpu_direct.c - ranks talk over adapters, but the data passes through host memory: no GPUDirect RDMA, and why. */
#include "doctor/nccl.h"

#include <stdio.h>
#include <string.h>

/* The nearest adapter of the host's GPUs at best, by the paths in the log; TDMI_NCCL_PATHS: not there. */
static tdmi_nccl_path best_path(const tdmi_nccl_host *host)
{
    int path = 0;
    while (path < TDMI_NCCL_PATHS && host->net_paths[path] == 0)
        path++;
    return (tdmi_nccl_path)path;
}

typedef struct cause {
    const char *id, *set;
    char why[384];
} cause;

static const char *const raise =
    "If the way over the CPU is the only one there is: NCCL_NET_GDR_LEVEL=PHB (same host bridge) or SYS (any), and measure both with "
    "nccl-tests. Better: put GPU and adapter on one PCIe switch, and switch off ACS and the IOMMU's translation";

static void explain(const tdmi_nccl_log *log, uint32_t h, cause *out)
{
    const tdmi_nccl_host *host = &log->host[h];
    const char *level = tdmi_nccl_variable_of(log, h, "NCCL_NET_GDR_LEVEL");
    const tdmi_nccl_version version = tdmi_nccl_log_version(log);
    const tdmi_nccl_path path = best_path(host);
    if (host->peermem_missing == TDMI_NCCL_YES || host->adapters_gdr == TDMI_NCCL_NO) {
        out->id = "module";
        out->set = "Load nvidia-peermem (`modprobe nvidia-peermem`; nv_peer_mem before driver 470), or use DMA-BUF: NCCL 2.13, CUDA 11.7, "
                   "open kernel modules and Linux "
                   "5.12 or later, NCCL_DMABUF_ENABLE not 0";
        snprintf(out->why, sizeof out->why, "the adapter cannot reach GPU memory: no nvidia-peermem, and %s",
                 host->dmabuf == TDMI_NCCL_YES ? "DMA-BUF of the GPU is not used by the adapter" : "no DMA-BUF");
    } else if (host->gdr_disabled > 0 && host->gdr_distance >= 0) {
        const tdmi_nccl_path distance = tdmi_nccl_path_of_number(version, host->gdr_distance),
                             limit = tdmi_nccl_path_of_number(version, host->gdr_level);
        out->id = "distance";
        out->set =
            level != NULL ? "Unset NCCL_NET_GDR_LEVEL, or raise it to the distance between GPU and adapter (`nvidia-smi topo -m`)" : raise;
        snprintf(out->why, sizeof out->why, "GPU and adapter are too far apart: distance %s (%lld), the limit is %s%s (%lld)%s%s",
                 distance < TDMI_NCCL_PATHS ? tdmi_nccl_path_name[distance] : "?", (long long)host->gdr_distance,
                 host->gdr_level_excluded ? "below " : "", limit < TDMI_NCCL_PATHS ? tdmi_nccl_path_name[limit] : "?",
                 (long long)host->gdr_level, level != NULL ? ", set by NCCL_NET_GDR_LEVEL=" : "", level != NULL ? level : "");
    } else if (level != NULL && (strcmp(level, "LOC") == 0 || strcmp(level, "0") == 0)) {
        out->id = "level";
        out->set = "Unset NCCL_NET_GDR_LEVEL";
        snprintf(out->why, sizeof out->why, "NCCL_NET_GDR_LEVEL=%s switches it off", level);
    } else if (path != TDMI_NCCL_PATHS && path >= TDMI_NCCL_PATH_PHB) {
        out->id = "distance";
        out->set = raise;
        snprintf(out->why, sizeof out->why, "the nearest adapter of every GPU is at distance %s, and NCCL's own limit is PXB",
                 tdmi_nccl_path_name[path]);
    } else {
        out->id = "unknown";
        out->set = "Check `lsmod | grep peermem` and `nvidia-smi topo -m` on the host, and log once with NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH";
        snprintf(out->why, sizeof out->why, "the log does not say why");
    }
}

void tdmi_find_nccl_no_gpu_direct(const tdmi_nccl_log *log, tdm_doctor_report *report)
{
    tdmi_nccl_marks marks;
    if (!tdmi_nccl_marks_make(log, report, &marks))
        return;
    for (uint32_t h = 0; h < log->hosts; h++) {
        cause first, other;
        char hosts[256], text[1024];
        int64_t pairs = 0;
        if (marks.done[h] || marks.ways[h].adapters == 0 || marks.ways[h].gdr > 0)
            continue;
        explain(log, h, &first);
        memset(marks.same, 0, log->hosts * sizeof *marks.same);
        for (uint32_t o = h; o < log->hosts; o++) {
            if (marks.ways[o].adapters == 0 || marks.ways[o].gdr > 0)
                continue;
            explain(log, o, &other);
            if (strcmp(first.why, other.why) != 0)
                continue;
            marks.same[o] = marks.done[o] = true;
            pairs += marks.ways[o].adapters;
        }
        tdmi_nccl_hosts_text(log, marks.same, hosts, sizeof hosts);
        snprintf(text, sizeof text,
                 "%s: none of %lld pairs over the network uses GPUDirect RDMA, so that all data passes through host memory; %s", hosts,
                 (long long)pairs, first.why);
        tdmi_nccl_add(report, "nccl_no_gpu_direct", TDMI_WARNING, -1,
                      json_pack("{s:o, s:I, s:s, s:s, s:I, s:I}", "hosts", tdmi_nccl_hosts_json(log, marks.same), "pairs", (json_int_t)pairs,
                                "cause", first.id, "why", first.why, "distance", (json_int_t)log->host[h].gdr_distance, "level",
                                (json_int_t)log->host[h].gdr_level),
                      text, first.set,
                      "the path crosses CPU sockets (SYS): there GPUDirect is often slower than host memory, and some root complexes drop "
                      "such traffic",
                      TDMI_NCCL_DOCS "#nccl-net-gdr-level, #nccl-dmabuf-enable; graph/paths.cc");
    }
    tdmi_nccl_marks_free(&marks);
}
