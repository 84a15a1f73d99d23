/* fuzz_nccl_log.c - any bytes as a log of NCCL: read line by line, then every finding is asked. */
#include "core/memory.h"
#include "doctor/nccl.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every place points into its table, and ranks are ranks of their communicator. */
static void check(const tdmi_nccl_log *log)
{
    for (uint32_t m = 0; m < log->members; m++)
        if (log->member[m].comm >= log->comms || log->member[m].process >= log->processes || log->member[m].rank < 0 ||
            log->member[m].rank >= log->comm[log->member[m].comm].ranks)
            abort();
    for (uint32_t i = 0; i < log->pairs; i++)
        if (log->pair[i].process >= log->processes || (log->pair[i].comm != TDMI_NCCL_NONE && log->pair[i].comm >= log->comms))
            abort();
    for (uint32_t p = 0; p < log->processes; p++)
        if (log->process[p].host >= log->hosts)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tdmi_nccl_log *log;
    const char *text = (const char *)data;
    tdm_doctor_report report = {.findings = json_array()};
    if (report.findings == NULL || tdmi_nccl_log_create(&log) != TDM_OK)
        abort();
    (void)tdmi_nccl_log_is(text, size);
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t nbytes = end != NULL ? (size_t)(end - text) - at : size - at;
        if (tdmi_nccl_log_line(log, text + at, nbytes) != TDM_OK)
            abort();
        at += nbytes + 1;
    }
    if (tdmi_nccl_log_finish(log) != TDM_OK)
        abort();
    check(log);
    json_t *summary = NULL;
    tdmi_nccl_report(log, &report, &summary);
    if (report.failed || summary == NULL)
        abort();
    json_decref(summary);
    json_decref(report.findings);
    tdmi_free(report.text);
    tdmi_nccl_log_free(log);
    return 0;
}
