/* figures.c - what belongs to the figures of a job. */
#include "hta/figures.h"

#include "core/memory.h"

#include <stdarg.h>
#include <stdio.h>

void tdmi_hta_figures_free(tdmi_hta_figures *figures)
{
    for (size_t r = 0; r < figures->rank_count; r++) {
        tdmi_hta_rank_figures *rank = &figures->rank[r];
        tdmi_free(rank->idle);
        tdmi_free(rank->kernel);
        tdmi_free(rank->annotation);
        tdmi_free(rank->queue);
        tdmi_free(rank->bandwidth);
        tdmi_free(rank->step);
        tdmi_free(rank->iteration);
        tdmi_free(rank->candidate);
    }
    tdmi_free(figures->rank);
    tdmi_free(figures->step);
    for (int metric = 0; metric < TDMI_HTA_METRICS; metric++)
        tdmi_free(figures->error[metric]);
    *figures = (tdmi_hta_figures){0};
}

const char *tdmi_hta_running_name(int running)
{
    static const char *const names[] = {
        "COMPUTATION", "COMMUNICATION", "COMPUTATION overlapping COMMUNICATION", "MEMORY", "COMPUTATION overlapping MEMORY",
        "COMMUNICATION overlapping MEMORY", "COMPUTATION overlapping COMMUNICATION overlapping MEMORY",
    };
    return names[running - 1];
}

bool tdmi_hta_figures_fail(tdmi_hta_figures *figures, tdmi_hta_metric metric, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (figures->error[metric] == NULL)
        figures->error[metric] = tdmi_strdup(text, "hta error");
    return figures->error[metric] != NULL;
}
