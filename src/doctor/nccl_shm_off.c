/* nccl_shm_off.c - ranks of one host that talk over the network: shared memory switched off, or out of reach. NCCL itself may choose
 * an adapter near each GPU over shared memory; IP sockets inside a host are never right. */
#include "doctor/nccl.h"

#include "core/memory.h"

#include <stdio.h>
#include <string.h>

void tdmi_find_nccl_shm_off(const tdmi_nccl_log *log, tdm_doctor_report *report)
{
    tdmi_nccl_ways *ways = tdmi_nccl_ways_of(log);
    bool *which = tdmi_calloc(log->hosts + 1, sizeof *which, "doctor");
    int64_t pairs = 0;
    bool asked = false;
    report->failed |= ways == NULL || which == NULL;
    for (uint32_t h = 0; ways != NULL && which != NULL && h < log->hosts; h++) {
        const char *disable = tdmi_nccl_variable_of(log, h, "NCCL_SHM_DISABLE");
        const bool off = disable != NULL && strcmp(disable, "0") != 0;
        which[h] = ways[h].net_inside > 0 && (off || ways[h].sockets_inside > 0);
        asked |= which[h] && off;
        pairs += which[h] ? ways[h].net_inside : 0;
    }
    if (pairs > 0) {
        char hosts[256], text[512];
        tdmi_nccl_hosts_text(log, which, hosts, sizeof hosts);
        snprintf(text, sizeof text, "%s: %lld pairs of ranks of one host talk over the network instead of shared memory%s", hosts,
                 (long long)pairs, asked ? "; NCCL_SHM_DISABLE is set" : "");
        tdmi_nccl_add(
            report, "nccl_shm_off", TDMI_WARNING, -1,
            json_pack("{s:o, s:I, s:b}", "hosts", tdmi_nccl_hosts_json(log, which), "pairs", (json_int_t)pairs, "disabled", asked), text,
            asked ? "Unset NCCL_SHM_DISABLE; where it hides a small /dev/shm, enlarge that instead (docker --shm-size, emptyDir with "
                    "medium Memory)"
                  : "Let the ranks of a host share /dev/shm and the IPC namespace (docker --ipc=host or --shm-size; in Kubernetes one "
                    "emptyDir with medium Memory "
                    "for all containers), and let them see one host name and boot id (NCCL_HOSTID)",
            "ranks of one host must stay apart for security", TDMI_NCCL_DOCS "#nccl-shm-disable; transport/shm.cc");
    }
    tdmi_free(ways);
    tdmi_free(which);
}
