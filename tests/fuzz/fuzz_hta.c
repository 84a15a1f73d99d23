/* fuzz_hta.c - any trace that can be read gives HTA's numbers, or is refused in words: of one rank, and of two that left the same. */
#include "hta/hta.h"

#include "core/memory.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compute(tdmi_trace **traces, size_t count)
{
    const tdmi_job_traces job = {.rank = traces, .count = count, .world_size = (int)count};
    tdmi_hta_figures figures;
    char *text;
    if (tdmi_hta_compute(&job, 1, &figures) != TDM_OK)
        return;
    for (int json = 0; json < 2; json++)
        if ((json ? tdmi_hta_json : tdmi_hta_text)(&job, &figures, &text) == TDM_OK)
            tdmi_free(text);
        else
            abort();
    tdmi_hta_figures_free(&figures);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const tdmi_trace_options options = {.memory_bytes = (size_t)64 << 20, .threads = 1};
    tdmi_trace *traces[2];
    if (tdmi_trace_read_bytes("fuzz", data, size, &options, &traces[0]) != TDM_OK)
        return 0;
    traces[1] = traces[0];
    compute(traces, 1);
    compute(traces, 2);
    tdmi_trace_free(traces[0]);
    return 0;
}
