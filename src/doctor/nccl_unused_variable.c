/* nccl_unused_variable.c - NCCL_* variables that do nothing: not read by this version, misspelt, or of a network that is not used. */
#include "doctor/nccl.h"

#include <stdio.h>
#include <string.h>

/* Why the variable does nothing in this version; false: it does something, or it is others'. */
static bool not_read(const tdmi_nccl_variable *variable, tdmi_nccl_version version, char *why, size_t nbytes, char *set, size_t set_nbytes)
{
    const tdmi_nccl_known_variable *known = tdmi_nccl_variable_known(variable->name);
    char now[24], then[24];
    tdmi_nccl_version_text(version, now);
    if (known == NULL) {
        if (variable->echoed || tdmi_nccl_variable_owner(variable->name) != NULL) /* a plugin's or a later version's: somebody read it */
            return false;
        const tdmi_nccl_known_variable *near = tdmi_nccl_variable_nearest(variable->name);
        if (near == NULL && version > TDMI_NCCL_VERSION(30, 7))
            return false;
        snprintf(why, nbytes, "no release of NCCL from 2.3 to 2.30 reads it%s%s", near != NULL ? "; the nearest name is " : "",
                 near != NULL ? near->name : "");
        snprintf(set, set_nbytes, near != NULL ? "Write %s" : "Remove it", near != NULL ? near->name : "");
        return true;
    }
    if (version == 0 || variable->echoed)
        return false;
    if (known->until != 0 && version > known->until) {
        tdmi_nccl_version_text(known->until, then);
        snprintf(why, nbytes, "it was read until %s, and this is %s", then, now);
        snprintf(set, set_nbytes, known->instead != NULL ? "Remove it; %s took its place" : "Remove it",
                 known->instead != NULL ? known->instead : "");
        return true;
    }
    if (version < known->since) {
        tdmi_nccl_version_text(known->since, then);
        snprintf(why, nbytes, "it is read since %s, and this is %s", then, now);
        snprintf(set, set_nbytes, "Remove it, or use NCCL %s or later", then);
        return true;
    }
    return false;
}

/* Variables of one network where another carries the data. */
static bool other_network(const tdmi_nccl_log *log, const tdmi_nccl_variable *variable, char *why, size_t nbytes, char *set,
                          size_t set_nbytes)
{
    static const char *const general[] = {"NCCL_IB_DISABLE", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY"};
    int64_t sockets = 0, adapters = 0;
    for (size_t i = 0; i < sizeof general / sizeof *general; i++)
        if (strcmp(variable->name, general[i]) == 0)
            return false;
    for (uint32_t i = 0; i < log->pairs; i++)
        if (log->pair[i].kind == TDMI_NCCL_NET)
            *(strcmp(log->pair[i].way, "Socket") == 0 ? &sockets : &adapters) += 1;
    const bool of_adapters = strncmp(variable->name, "NCCL_IB_", 8) == 0 || strncmp(variable->name, "NCCL_NET_GDR_", 13) == 0 ||
                             strcmp(variable->name, "NCCL_DMABUF_ENABLE") == 0;
    const bool of_sockets = strcmp(variable->name, "NCCL_SOCKET_NTHREADS") == 0 || strcmp(variable->name, "NCCL_NSOCKS_PERTHREAD") == 0;
    if (of_adapters && sockets > 0 && adapters == 0)
        snprintf(why, nbytes, "it is for InfiniBand and RoCE, and all data of this job goes over NET/Socket");
    else if (of_sockets && adapters > 0 && sockets == 0)
        snprintf(why, nbytes, "it is for NET/Socket, and no data of this job goes over sockets");
    else
        return false;
    snprintf(set, set_nbytes, "Remove it, or make the job use that network");
    return true;
}

void tdmi_find_nccl_unused_variable(const tdmi_nccl_log *log, tdm_doctor_report *report)
{
    const tdmi_nccl_version version = tdmi_nccl_log_version(log);
    for (uint32_t v = 0; v < log->variables; v++) {
        const tdmi_nccl_variable *variable = &log->variable[v];
        char why[256], set[160], text[1024], now[24];
        bool seen = false;
        for (uint32_t o = 0; o < v && !seen; o++)
            seen = log->variable[o].name == variable->name;
        if (seen || (!not_read(variable, version, why, sizeof why, set, sizeof set) &&
                     !other_network(log, variable, why, sizeof why, set, sizeof set)))
            continue;
        tdmi_nccl_version_text(version, now);
        snprintf(text, sizeof text, "%s=%.200s does nothing: %s", variable->name, variable->value, why);
        tdmi_nccl_add(report, "nccl_unused_variable", TDMI_WARNING, -1,
                      json_pack("{s:s, s:s, s:s, s:s}", "variable", variable->name, "value", variable->value, "version", now, "why", why),
                      text, set, "a plugin reads it that this list does not know",
                      "NCCL's sources, releases 2.3.5 to 2.30.7; " TDMI_NCCL_DOCS);
    }
}
