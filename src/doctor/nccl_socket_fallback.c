/* nccl_socket_fallback.c - ranks of different hosts talk over IP sockets although something says that there is InfiniBand or RoCE. */
#include "doctor/nccl.h"

#include <stdio.h>
#include <string.h>

static bool names_infiniband(const char *interfaces)
{
    for (const char *at = interfaces; at != NULL && *at != '\0'; at = strchr(at, ' ') != NULL ? strchr(at, ' ') + 1 : NULL)
        if (strncmp(at, "ib", 2) == 0 && at[2] != 'v')
            return true;
    return false;
}

static bool is_on(const char *value)
{
    return value != NULL && strcmp(value, "0") != 0;
}

/* Why the host should have it, and what to do; NULL: nothing says that it has. */
static const char *reason(const tdmi_nccl_log *log, uint32_t h, bool elsewhere, const char **set)
{
    const tdmi_nccl_host *host = &log->host[h];
    const char *net = tdmi_nccl_variable_of(log, h, "NCCL_NET"), *hca = tdmi_nccl_variable_of(log, h, "NCCL_IB_HCA");
    if (is_on(tdmi_nccl_variable_of(log, h, "NCCL_IB_DISABLE"))) {
        *set = "Unset NCCL_IB_DISABLE (or set it to 0) and look for 'NET/IB : Using' in the next log";
        return "NCCL_IB_DISABLE is set, so that adapters are not even looked for";
    }
    if (net != NULL && strcmp(net, "Socket") == 0) {
        *set = "Unset NCCL_NET, or set it to IB";
        return "NCCL_NET=Socket asks for it";
    }
    if (host->infiniband == TDMI_NCCL_YES) {
        *set = "Look in the log behind 'NET/IB : Using' for what went wrong with it; NCCL_NET=IB turns the fallback into an error that "
               "says why";
        return "NET/IB found adapters";
    }
    if (host->infiniband == TDMI_NCCL_NO && hca != NULL) {
        *set = "Compare NCCL_IB_HCA with the names of `ibv_devices` on this host ('=' before a name matches it exactly, '^' excludes)";
        return "NCCL_IB_HCA is set but no adapter matches it or is up";
    }
    if (names_infiniband(host->sockets)) {
        *set = "Give the process what it needs for verbs: libibverbs with its provider inside the container, /dev/infiniband, an unlimited "
               "memory lock "
               "(ulimit -l); then 'NET/IB : Using' appears";
        return "its interface is IP over InfiniBand, but NET/IB found no device";
    }
    if (elsewhere) {
        *set = "Check `ibv_devinfo` on this host (port state, driver, /dev/infiniband in the container): other hosts of the job use theirs";
        return "other hosts of this job use InfiniBand or RoCE";
    }
    return NULL;
}

void tdmi_find_nccl_socket_fallback(const tdmi_nccl_log *log, tdm_doctor_report *report)
{
    tdmi_nccl_marks marks;
    bool elsewhere = false;
    if (!tdmi_nccl_marks_make(log, report, &marks))
        return;
    for (uint32_t h = 0; h < log->hosts; h++)
        elsewhere |= marks.ways[h].adapters > 0 || log->host[h].infiniband == TDMI_NCCL_YES;
    for (uint32_t h = 0; h < log->hosts; h++) {
        const char *set = NULL, *why = marks.ways[h].sockets > 0 && !marks.done[h] ? reason(log, h, elsewhere, &set) : NULL, *other_set;
        char hosts[256], text[1024];
        int64_t pairs = 0;
        if (why == NULL)
            continue;
        memset(marks.same, 0, log->hosts * sizeof *marks.same);
        for (uint32_t o = h; o < log->hosts; o++)
            if (marks.ways[o].sockets > 0 && reason(log, o, elsewhere, &other_set) == why) {
                marks.same[o] = marks.done[o] = true;
                pairs += marks.ways[o].sockets;
            }
        tdmi_nccl_hosts_text(log, marks.same, hosts, sizeof hosts);
        snprintf(text, sizeof text, "%s: %lld pairs of ranks talk over IP sockets (NET/Socket%s%s), and %s", hosts, (long long)pairs,
                 log->host[h].sockets[0] != '\0' ? ", " : "", log->host[h].sockets, why);
        tdmi_nccl_add(report, "nccl_socket_fallback", TDMI_WARNING, -1,
                      json_pack("{s:o, s:I, s:s, s:s}", "hosts", tdmi_nccl_hosts_json(log, marks.same), "pairs", (json_int_t)pairs, "interfaces",
                                log->host[h].sockets, "why", why),
                      text, set, "the hosts have Ethernet without RoCE only (`ibv_devices` lists nothing): then sockets are right",
                      TDMI_NCCL_DOCS "#nccl-ib-disable, #nccl-ib-hca, #nccl-net; transport/net_ib");
    }
    tdmi_nccl_marks_free(&marks);
}
