/* nccl_warnings.c - warnings that no other finding speaks of: memory that cannot be pinned, two ranks on a GPU, CUDA errors, others. */
#include "doctor/nccl.h"

#include <stdio.h>

static const struct {
    tdmi_nccl_message_kind kind;
    const char *id, *what, *set, *not_when, *source;
} kinds[] = {
    {TDMI_NCCL_MEMLOCK, "nccl_memory_lock", "the adapter could not pin memory",
     "Raise the limit of locked memory (ulimit -l unlimited; docker --ulimit memlock=-1; LimitMEMLOCK=infinity of slurmd)",
     "the text says that GPU memory could not be registered: then GPUDirect's module is the reason",
     "misc/ibvwrap.cc; NCCL's troubleshooting page"},
    {TDMI_NCCL_SAME_GPU, "nccl_same_gpu", "two ranks use one GPU",
     "Give each rank its own: torch.cuda.set_device(local_rank), and device_id of init_process_group",
     "several ranks on a GPU are wanted: NCCL 2.30 allows it with NCCL_MULTI_RANK_GPU_ENABLE=1", "init.cc"},
    {TDMI_NCCL_NO_INTERFACE, "nccl_no_interface", "no usable network interface was found",
     "Set NCCL_SOCKET_IFNAME to an interface that is up on every host (`ip -br addr`), or remove a filter that matches none", "never",
     TDMI_NCCL_DOCS "#nccl-socket-ifname"},
    {TDMI_NCCL_CUDA, "nccl_cuda_error", "a CUDA call of NCCL failed",
     "Read the text: out of memory (leave NCCL some hundred MB), or an error of an earlier kernel, which CUDA reports late "
     "(CUDA_LAUNCH_BLOCKING=1 finds it)",
     "never", "include/checks.h"},
    {TDMI_NCCL_WARNING, "nccl_warning", "NCCL warned", "Read the first warning and what the rank said before it", "never", "the log"},
};

void tdmi_find_nccl_warnings(const tdmi_nccl_log *log, tdm_doctor_report *report)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const tdmi_nccl_message *first = NULL;
        int64_t times = 0;
        char text[1536], who[32];
        for (uint32_t m = 0; m < log->messages; m++)
            if (log->message[m].kind == kinds[k].kind) {
                first = first == NULL ? &log->message[m] : first;
                times += log->message[m].count;
            }
        if (first == NULL)
            continue;
        const int64_t rank = tdmi_nccl_rank_of(log, first->process);
        snprintf(text, sizeof text, "%s (%lld line%s); the first, of %s on %s: %.800s", kinds[k].what, (long long)times,
                 times == 1 ? "" : "s", tdmi_nccl_rank_text(rank, who),
                 first->process != TDMI_NCCL_NONE ? log->host[log->process[first->process].host].name : "?", first->text);
        tdmi_nccl_add(report, kinds[k].id, kinds[k].kind == TDMI_NCCL_WARNING ? TDMI_WARNING : TDMI_ERROR, rank,
                      json_pack("{s:I, s:s, s:s}", "lines", (json_int_t)times, "first", first->text, "from", first->source), text,
                      kinds[k].set, kinds[k].not_when, kinds[k].source);
    }
}
