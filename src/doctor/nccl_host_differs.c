/* nccl_host_differs.c - a host that is not like the others: driver, adapters, network, GPUDirect, variables. */
#include "doctor/nccl.h"

#include "core/memory.h"

#include <stdio.h>
#include <string.h>

/* What a host is compared by. A value is NULL where the log does not say it. */
typedef struct trait {
    const char *name;
    const char *(*value)(const tdmi_nccl_log *log, const tdmi_nccl_ways *ways, uint32_t h, const char *name, char buffer[64]);
} trait;

static const char *driver(const tdmi_nccl_log *log, const tdmi_nccl_ways *ways, uint32_t h, const char *name, char buffer[64])
{
    (void)ways, (void)name;
    snprintf(buffer, 64, "%lld", (long long)log->host[h].driver);
    return log->host[h].driver > 0 ? buffer : NULL;
}

static int count_of(const char *text, const char *piece)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, piece)) != NULL; at += strlen(piece))
        count++;
    return count;
}

static const char *adapters(const tdmi_nccl_log *log, const tdmi_nccl_ways *ways, uint32_t h, const char *name, char buffer[64])
{
    (void)ways, (void)name;
    snprintf(buffer, 64, "%d", count_of(log->host[h].adapters, "/IB") + count_of(log->host[h].adapters, "/RoCE"));
    return log->host[h].infiniband != TDMI_NCCL_UNKNOWN ? buffer : NULL;
}

static const char *network(const tdmi_nccl_log *log, const tdmi_nccl_ways *ways, uint32_t h, const char *name, char buffer[64])
{
    (void)ways, (void)name, (void)buffer;
    return log->host[h].network[0] != '\0' && !log->host[h].network_differs ? log->host[h].network : NULL;
}

static const char *gdr(const tdmi_nccl_log *log, const tdmi_nccl_ways *ways, uint32_t h, const char *name, char buffer[64])
{
    (void)log, (void)name, (void)buffer;
    return ways[h].adapters == 0 ? NULL : ways[h].gdr > 0 ? "used" : "not used";
}

/* Variables that every process reads: where others echo one, a host without it does not have it. */
static const char *variable(const tdmi_nccl_log *log, const tdmi_nccl_ways *ways, uint32_t h, const char *name, char buffer[64])
{
    const char *value = NULL;
    (void)ways, (void)buffer;
    for (uint32_t v = 0; v < log->variables; v++)
        if (log->variable[v].host == h && log->variable[v].echoed && strcmp(log->variable[v].name, name) == 0)
            value = log->variable[v].value;
    const bool has_start =
        log->host[h].bootstrap[0] != '\0' || log->host[h].network[0] != '\0'; /* else the log lacks what NCCL says at first */
    return value != NULL ? value : has_start ? "not set" : NULL;
}

static const trait traits[] = {
    {"the CUDA driver", driver},    {"the number of InfiniBand or RoCE adapters", adapters},
    {"the network", network},       {"GPUDirect RDMA", gdr},
    {"NCCL_IB_DISABLE", variable},  {"NCCL_P2P_DISABLE", variable},
    {"NCCL_SHM_DISABLE", variable}, {"NCCL_SOCKET_IFNAME", variable},
    {"NCCL_IB_HCA", variable},      {"NCCL_NET", variable},
    {"NCCL_ALGO", variable},        {"NCCL_PROTO", variable},
};

/* The commonest value of a trait; *count_out: how many hosts have any. */
static const char *commonest(const char *const *values, uint32_t hosts, uint32_t *common_out, uint32_t *count_out)
{
    const char *best = NULL;
    *common_out = *count_out = 0;
    for (uint32_t a = 0; a < hosts; a++) {
        uint32_t same = 0;
        if (values[a] == NULL)
            continue;
        (*count_out)++;
        if (best != NULL && strcmp(best, values[a]) == 0)
            continue;
        for (uint32_t b = 0; b < hosts; b++)
            same += values[b] != NULL && strcmp(values[a], values[b]) == 0;
        if (same > *common_out) {
            *common_out = same;
            best = values[a];
        }
    }
    return best;
}

static void add(const tdmi_nccl_log *log, const trait *t, const char *const *values, const char *common, const bool *which,
                tdm_doctor_report *report)
{
    char hosts[256], text[1024];
    uint32_t h = 0, differ = 0;
    while (!which[h])
        h++;
    for (uint32_t o = 0; o < log->hosts; o++)
        differ += which[o];
    tdmi_nccl_hosts_text(log, which, hosts, sizeof hosts);
    snprintf(text, sizeof text, "%s differ%s from the other hosts in %s: %.200s; the others: %.200s", hosts, differ == 1 ? "s" : "",
             t->name, values[h], common);
    tdmi_nccl_add(
        report, "nccl_host_differs", TDMI_WARNING, -1,
        json_pack("{s:o, s:s, s:s, s:s}", "hosts", tdmi_nccl_hosts_json(log, which), "what", t->name, "value", values[h], "others", common),
        text, "Make the hosts alike: a ring is as slow as its slowest link, and different NCCL_ALGO or NCCL_PROTO hang",
        "the hosts are different on purpose (then expect the slower one's speed)", "comparison of the hosts of this log");
}

void tdmi_find_nccl_host_differs(const tdmi_nccl_log *log, tdm_doctor_report *report)
{
    tdmi_nccl_ways *ways = tdmi_nccl_ways_of(log);
    bool *which = tdmi_calloc(log->hosts + 1, sizeof *which, "doctor");
    char(*buffer)[64] = tdmi_calloc(log->hosts + 1, sizeof *buffer, "doctor");
    const char **values = tdmi_calloc(log->hosts + 1, sizeof *values, "doctor");
    const uint32_t hosts = log->hosts < 4096 ? log->hosts : 4096; /* comparing takes the square of it */
    report->failed |= ways == NULL || which == NULL || buffer == NULL || values == NULL;
    for (size_t t = 0; !report->failed && hosts > 1 && t < sizeof traits / sizeof *traits; t++) {
        uint32_t common, count, differ = 0;
        for (uint32_t h = 0; h < hosts; h++)
            values[h] = traits[t].value(log, ways, h, traits[t].name, buffer[h]);
        const char *best = commonest(values, hosts, &common, &count);
        for (uint32_t h = 0; h < hosts; h++) {
            which[h] = values[h] != NULL && strcmp(values[h], best) != 0;
            differ += which[h];
        }
        if (differ > 0)
            add(log, &traits[t], values, best, which, report);
    }
    tdmi_free(ways);
    tdmi_free(which);
    tdmi_free(buffer);
    tdmi_free(values);
}
