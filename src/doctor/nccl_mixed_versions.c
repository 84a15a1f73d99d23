/* nccl_mixed_versions.c - ranks of one communicator with different versions of NCCL. */
#include "doctor/nccl.h"

#include <stdio.h>

/* Two processes of one communicator whose versions are known and differ. */
static bool find_two(const tdmi_nccl_log *log, uint32_t *a, uint32_t *b)
{
    for (uint32_t c = 0; c < log->comms; c++) {
        *a = TDMI_NCCL_NONE;
        for (uint32_t m = log->comm[c].first; m != TDMI_NCCL_NONE; m = log->member[m].next_in_comm) {
            *b = log->member[m].process;
            if (log->process[*b].version == 0)
                continue;
            if (*a == TDMI_NCCL_NONE)
                *a = *b;
            else if (log->process[*a].version != log->process[*b].version)
                return true;
        }
    }
    return false;
}

void tdmi_find_nccl_mixed_versions(const tdmi_nccl_log *log, tdm_doctor_report *report)
{
    uint32_t a, b;
    char first[24], second[24], text[1024] = "", who[32], other[32];
    json_t *evidence = NULL;
    int64_t rank = -1;
    const tdmi_nccl_message *said = NULL;
    for (uint32_t m = 0; m < log->messages && said == NULL; m++)
        if (log->message[m].kind == TDMI_NCCL_VERSIONS)
            said = &log->message[m];
    if (find_two(log, &a, &b)) {
        const tdmi_nccl_process *x = &log->process[a], *y = &log->process[b];
        tdmi_nccl_version_text(x->version, first);
        tdmi_nccl_version_text(y->version, second);
        rank = tdmi_nccl_rank_of(log, b);
        snprintf(text, sizeof text, "ranks have different versions of NCCL: %s (%s) has %s, %s (%s) has %s",
                 tdmi_nccl_rank_text(tdmi_nccl_rank_of(log, a), who), log->host[x->host].name, first, tdmi_nccl_rank_text(rank, other),
                 log->host[y->host].name, second);
        evidence = json_pack("{s:[s, s]}", "versions", first, second);
    } else if (said != NULL) {
        rank = tdmi_nccl_rank_of(log, said->process);
        snprintf(text, sizeof text, "ranks have different versions of NCCL; %s says: %.600s", tdmi_nccl_rank_text(rank, who), said->text);
        evidence = json_pack("{s:s}", "warning", said->text);
    } else if (log->plain_versions > 1) {
        tdmi_nccl_version_text(log->plain_version[0], first);
        tdmi_nccl_version_text(log->plain_version[1], second);
        snprintf(text, sizeof text, "the log has different versions of NCCL: %s and %s", first, second);
        evidence = json_pack("{s:[s, s]}", "versions", first, second);
    } else
        return;
    tdmi_nccl_add(report, "nccl_mixed_versions", TDMI_ERROR, rank, evidence, text,
                  "Give all hosts one image or environment (`python -c 'import torch; print(torch.cuda.nccl.version())'` on each); look "
                  "for another libnccl.so.2 in LD_LIBRARY_PATH "
                  "and LD_PRELOAD",
                  "the log holds two jobs one after the other: give them apart",
                  "init.cc: since 2.23 NCCL refuses such a communicator, before it hangs or crashes");
}
