/* nccl_shm_too_small.c - a segment in /dev/shm could not be made. */
#include "doctor/nccl.h"

#include "core/memory.h"

#include <stdio.h>

void tdmi_find_nccl_shm_too_small(const tdmi_nccl_log *log, tdm_doctor_report *report)
{
    const tdmi_nccl_message *first = NULL;
    int64_t times = 0;
    bool *which = tdmi_calloc(log->hosts + 1, sizeof *which, "doctor");
    report->failed |= which == NULL;
    for (uint32_t m = 0; which != NULL && m < log->messages; m++) {
        const tdmi_nccl_message *message = &log->message[m];
        if (message->kind != TDMI_NCCL_SHM_SPACE)
            continue;
        first = first == NULL ? message : first;
        times += message->count;
        if (message->process != TDMI_NCCL_NONE)
            which[log->process[message->process].host] = true;
    }
    if (first != NULL) {
        char hosts[256], text[1024], who[32];
        tdmi_nccl_hosts_text(log, which, hosts, sizeof hosts);
        snprintf(text, sizeof text, "%s: shared memory could not be made, %lld warning%s; the first, of %s: %.600s", hosts,
                 (long long)times, times == 1 ? "" : "s", tdmi_nccl_rank_text(tdmi_nccl_rank_of(log, first->process), who), first->text);
        tdmi_nccl_add(report, "nccl_shm_too_small", TDMI_ERROR, tdmi_nccl_rank_of(log, first->process),
                      json_pack("{s:o, s:I, s:s, s:s}", "hosts", tdmi_nccl_hosts_json(log, which), "warnings", (json_int_t)times, "first",
                                first->text, "from", first->source),
                      text,
                      "Enlarge /dev/shm: docker run --shm-size=8g (or --ipc=host), in Kubernetes an emptyDir with medium Memory at "
                      "/dev/shm; remove segments that killed jobs "
                      "left (`ls /dev/shm/nccl-*`)",
                      "the text says permission denied: then the mount's rights are the reason, not its size",
                      "transport/shm.cc, misc/shmutils.cc; NCCL's troubleshooting page, Shared memory");
    }
    tdmi_free(which);
}
