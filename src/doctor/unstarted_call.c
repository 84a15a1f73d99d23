/* unstarted_call.c - all ranks made the call, on some GPUs its kernel runs and waits, on others it has not begun: those are held up by what
 * stands before it in their streams. Needs the start times that PyTorch records with TORCH_NCCL_ENABLE_TIMING=1. */
#include "doctor/flight.h"

#include <stdio.h>

static void add(const tdmi_lined_group *group, const tdmi_line *line, size_t count, size_t first, size_t unstarted,
                tdm_doctor_report *report)
{
    char what[160], place[TDMI_LABEL_TEXT_BYTES], ranks[TDMI_RANKS_TEXT_BYTES], text[1024];
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        if (line[i].call->state == TDMI_CALL_CREATED)
            json_array_append_new(list, json_integer(line[i].call->group_rank));
    tdmi_ranks_text(list, ranks);
    tdmi_call_text(line->call, what, sizeof what);
    tdmi_recorded_label_text(line[first].call, place);
    snprintf(text, sizeof text,
             "all ranks made call %llu of group %s (%s%s), but on rank%s %s the GPU has not begun it, while %zu other%s wait in it",
             (unsigned long long)line->call->number, group->name, what, place, unstarted == 1 ? "" : "s", ranks, count - unstarted,
             count - unstarted == 1 ? "" : "s");
    tdmi_report_add(report, "unstarted_call", TDMI_ERROR, unstarted == 1 ? line[first].witness->recording.rank : -1,
                    json_pack("{s:s, s:o, s:o}", "group", group->name, "made", tdmi_call_json(line->call), "unstarted", list),
                    "Look at what this rank's stream does before the call: a kernel that does not end, a wait for another stream, or a "
                    "collective of another group that itself waits",
                    text);
}

void tdmi_find_unstarted_calls(const tdmi_lineup *lineup, tdm_doctor_report *report)
{
    for (size_t g = 0; g < lineup->groups; g++) {
        const tdmi_lined_group *group = &lineup->group[g];
        for (size_t at = 0, count; at < group->count; at += count) {
            const tdmi_line *line = group->line + at;
            size_t created = 0, started = 0, first = 0;
            count = tdmi_lines_of_call(group, at);
            for (size_t i = count; i-- > 0;) {
                started += line[i].call->state == TDMI_CALL_STARTED;
                if (line[i].call->state == TDMI_CALL_CREATED) {
                    created++;
                    first = i;
                }
            }
            if (created + started == 0)
                continue;
            if (created > 0 && started > 0 && count == (size_t)group->size)
                add(group, line, count, first, created, report);
            break; /* the first call that is not over */
        }
    }
}
