/* nccl_p2p_off.c - GPUs of one host do not reach each other's memory, so that their data takes two copies through the host's. */
#include "doctor/nccl.h"

#include <stdio.h>
#include <string.h>

/* A message that says so: of this host, else of any. */
static const tdmi_nccl_message *told(const tdmi_nccl_log *log, uint32_t h)
{
    const tdmi_nccl_message *any = NULL;
    for (uint32_t m = 0; m < log->messages; m++) {
        const tdmi_nccl_message *message = &log->message[m];
        if (message->process == TDMI_NCCL_NONE || (message->kind != TDMI_NCCL_P2P_BROKEN && message->kind != TDMI_NCCL_NOTE) ||
            strstr(message->text, "libibverbs") != NULL)
            continue;
        if (log->process[message->process].host == h)
            return message;
        any = any == NULL ? message : any;
    }
    return any;
}

/* GPUs between which NCCL would not use P2P by itself: everything beyond PCIe switches. */
static bool only_far(const tdmi_nccl_host *host)
{
    int64_t near = 0, far = 0;
    for (int path = 0; path < TDMI_NCCL_PATHS; path++)
        *(path <= TDMI_NCCL_PATH_PXB ? &near : &far) += host->gpu_paths[path];
    return far > 0 && near == 0;
}

/* Why P2P is off on the host; false: it is not, or all is as it should be. */
static bool explain(const tdmi_nccl_log *log, uint32_t h, const tdmi_nccl_ways *ways, char *why, size_t nbytes, const char **set)
{
    const char *disable = tdmi_nccl_variable_of(log, h, "NCCL_P2P_DISABLE"), *level = tdmi_nccl_variable_of(log, h, "NCCL_P2P_LEVEL");
    const tdmi_nccl_message *message = told(log, h);
    if (ways->shm + ways->net_inside == 0)
        return false;
    if (disable != NULL && strcmp(disable, "0") != 0) {
        snprintf(why, nbytes, "NCCL_P2P_DISABLE=%s", disable);
        *set = "Unset NCCL_P2P_DISABLE; if it was set against a hang, first look for ACS (`lspci -vvv | grep ACSCtl`) and the IOMMU, which "
               "break P2P";
    } else if (level != NULL && ways->p2p == 0) {
        snprintf(why, nbytes, "NCCL_P2P_LEVEL=%s lets no pair of GPUs use it", level);
        *set = "Unset NCCL_P2P_LEVEL, or set it to NVL, PXB, PHB or SYS";
    } else if (message != NULL) {
        snprintf(why, nbytes, "NCCL says: %s", message->text);
        *set = "Check `nvidia-smi topo -p2p r` and `nvidia-smi nvlink -s`; switch off ACS in bare metal, pass NVLink through to virtual "
               "machines, and let containers share "
               "the IPC and PID namespaces (docker --ipc=host --pid=host)";
    } else if (ways->p2p == 0 && !only_far(&log->host[h])) {
        snprintf(why, nbytes, "the log does not say why");
        *set = "Check `nvidia-smi topo -p2p r`: where it says OK, containers with own namespaces or different CUDA_VISIBLE_DEVICES may be "
               "the reason; GeForce GPUs have "
               "none since the RTX 40 series";
    } else
        return false;
    return true;
}

void tdmi_find_nccl_p2p_off(const tdmi_nccl_log *log, tdm_doctor_report *report)
{
    tdmi_nccl_marks marks;
    if (!tdmi_nccl_marks_make(log, report, &marks))
        return;
    for (uint32_t h = 0; h < log->hosts; h++) {
        char why[512], other[512], hosts[256], text[1024];
        const char *set = "", *other_set = "";
        int64_t pairs = 0;
        if (marks.done[h] || !explain(log, h, &marks.ways[h], why, sizeof why, &set))
            continue;
        memset(marks.same, 0, log->hosts * sizeof *marks.same);
        for (uint32_t o = h; o < log->hosts; o++)
            if (!marks.done[o] && explain(log, o, &marks.ways[o], other, sizeof other, &other_set) && other_set == set) {
                marks.same[o] = marks.done[o] = true;
                pairs += marks.ways[o].shm + marks.ways[o].net_inside;
            }
        tdmi_nccl_hosts_text(log, marks.same, hosts, sizeof hosts);
        snprintf(text, sizeof text, "%s: %lld pairs of GPUs of one host do not use P2P but host memory; %s", hosts, (long long)pairs, why);
        tdmi_nccl_add(report, "nccl_p2p_off", TDMI_WARNING, -1,
                      json_pack("{s:o, s:I, s:s}", "hosts", tdmi_nccl_hosts_json(log, marks.same), "pairs", (json_int_t)pairs, "why", why), text,
                      set, "the GPUs have neither NVLink nor a common PCIe switch: across CPU sockets host memory can be the faster way",
                      TDMI_NCCL_DOCS "#nccl-p2p-disable, #nccl-p2p-level; graph/paths.cc");
    }
    tdmi_nccl_marks_free(&marks);
}
