/* nccl_ways.c - what findings in NCCL's logs share: ways counted by host, lists of hosts, one form of advice. */
#include "doctor/nccl.h"

#include "core/memory.h"

#include <stdio.h>
#include <string.h>

/* The host of a rank of a pair, or TDMI_NCCL_NONE. Ranks that talk through P2P and SHM are on the host that says so. */
static uint32_t other_host(const tdmi_nccl_log *log, const tdmi_nccl_pair *pair)
{
    const uint32_t own = log->process[pair->process].host;
    if (pair->kind == TDMI_NCCL_P2P || pair->kind == TDMI_NCCL_SHM)
        return own;
    const uint32_t other = tdmi_nccl_process_of(log, pair->comm, pair->is_receive ? pair->from : pair->to);
    return other != TDMI_NCCL_NONE ? log->process[other].host : TDMI_NCCL_NONE;
}

tdmi_nccl_ways *tdmi_nccl_ways_of(const tdmi_nccl_log *log)
{
    tdmi_nccl_ways *ways = tdmi_calloc(log->hosts + 1, sizeof *ways, "doctor");
    if (ways == NULL)
        return NULL;
    for (uint32_t i = 0; i < log->pairs; i++) {
        const tdmi_nccl_pair *pair = &log->pair[i];
        const uint32_t own = log->process[pair->process].host;
        tdmi_nccl_ways *w = &ways[own];
        const bool inside = other_host(log, pair) == own, socket = strcmp(pair->way, "Socket") == 0;
        if (pair->kind == TDMI_NCCL_P2P)
            w->p2p++;
        else if (pair->kind == TDMI_NCCL_SHM)
            w->shm++;
        else if (pair->kind == TDMI_NCCL_COLLNET)
            continue;
        else if (inside) {
            w->net_inside++;
            w->sockets_inside += socket;
        } else if (socket)
            w->sockets++;
        else {
            w->adapters++;
            w->gdr += pair->gdr;
        }
    }
    return ways;
}

bool tdmi_nccl_marks_make(const tdmi_nccl_log *log, tdm_doctor_report *report, tdmi_nccl_marks *out)
{
    out->ways = tdmi_nccl_ways_of(log);
    out->done = tdmi_calloc(log->hosts + 1, sizeof *out->done, "doctor");
    out->same = tdmi_calloc(log->hosts + 1, sizeof *out->same, "doctor");
    if (out->ways != NULL && out->done != NULL && out->same != NULL)
        return true;
    report->failed = true;
    tdmi_nccl_marks_free(out);
    return false;
}

void tdmi_nccl_marks_free(tdmi_nccl_marks *marks)
{
    tdmi_free(marks->ways);
    tdmi_free(marks->done);
    tdmi_free(marks->same);
    *marks = (tdmi_nccl_marks){0};
}

void tdmi_nccl_hosts_text(const tdmi_nccl_log *log, const bool *which, char *text, size_t nbytes)
{
    size_t used = 0, shown = 0, count = 0;
    for (uint32_t h = 0; h < log->hosts; h++)
        count += which[h];
    text[0] = '\0';
    for (uint32_t h = 0; h < log->hosts; h++) {
        if (!which[h])
            continue;
        if (shown == 4 || used + strlen(log->host[h].name) + 32 > nbytes) {
            snprintf(text + used, nbytes - used, " and %zu more", count - shown);
            return;
        }
        used += (size_t)snprintf(text + used, nbytes - used, "%s%s",
                                 shown == 0           ? ""
                                 : shown + 1 == count ? " and "
                                                      : ", ",
                                 log->host[h].name);
        shown++;
    }
}

json_t *tdmi_nccl_hosts_json(const tdmi_nccl_log *log, const bool *which)
{
    json_t *list = json_array();
    for (uint32_t h = 0; h < log->hosts; h++)
        if (which[h])
            json_array_append_new(list, json_string(log->host[h].name));
    return list;
}

const char *tdmi_nccl_rank_text(int64_t rank, char text[32])
{
    if (rank < 0)
        return "a rank that is not named";
    snprintf(text, 32, "rank %lld", (long long)rank);
    return text;
}

void tdmi_nccl_add(tdm_doctor_report *report, const char *id, tdmi_severity severity, int64_t rank, json_t *evidence, const char *text,
                   const char *set, const char *not_when, const char *source)
{
    report->failed |= json_object_set_new(evidence, "not_when", json_string(not_when)) != 0;
    report->failed |= json_object_set_new(evidence, "source", json_string(source)) != 0;
    tdmi_report_add(report, id, severity, rank >= 0 && rank <= INT32_MAX ? (int)rank : -1, evidence, set, text);
    tdmi_report_wrap(report, 3, "   Not when: %s.", not_when);
    tdmi_report_wrap(report, 3, "   Source: %s; docs/findings/%s.md", source, id);
}
